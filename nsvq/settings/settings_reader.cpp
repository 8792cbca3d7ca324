#include "nsvq/settings/settings_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <set>
#include <system_error>

#include "nsvq/core/error.h"
#include "nsvq/core/log.h"
#include "nsvq/core/text.h"

namespace nsvq {

namespace {

namespace fs = std::filesystem;

constexpr size_t kMostBytes = 1 << 20;
constexpr int kMostFiles = 1000;

/// The text of a recipe; `named` says, for errors, where its name came from.
std::string read_recipe(const std::string& path, const std::string& named) {
  std::error_code ignored;
  const auto status = fs::status(path, ignored);
  if (fs::is_directory(status)) throw UserError("{}{}: a folder, not a recipe", named, path);
  // A user may name a pipe; a recipe that names one would wait for its other end.
  if (!named.empty() && fs::exists(status) && !fs::is_regular_file(status)) {
    throw UserError("{}{}: not a file", named, path);
  }
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    const int reason = errno ? errno : EIO;
    const bool ending_is_missing = fs::is_regular_file(path + ".yaml", ignored);
    throw UserError("{}{}: cannot read this recipe: {}{}", named, path, std::strerror(reason),
                    ending_is_missing ? fmt::format("; did you mean {}.yaml?", path) : "");
  }
  // Read with a bound, since a device or a pipe has no size to check first.
  std::string text(kMostBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) throw UserError("{}{}: reading failed", named, path);
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.size() > kMostBytes) throw UserError("{}{}: over 1 MB, so not a recipe", named, path);
  return text;
}

/// The items of a list [A, B] of sources, as they are written: YAML would take the braces of
/// shard-{00..07}.tar for a map. None where an item is in quotes or empty, which YAML decides.
std::vector<YamlValue::Scalar> plain_items(const std::string& list) {
  std::vector<YamlValue::Scalar> items;
  int depth = 0;  // of braces, whose commas are the item's own
  size_t begin = 1;
  for (size_t i = 1; i < list.size(); ++i) {
    if (list[i] == '{') ++depth;
    if (list[i] == '}') --depth;
    if (i + 1 < list.size() && (list[i] != ',' || depth > 0)) continue;
    auto item = list.substr(begin, i - begin);
    item.erase(0, item.find_first_not_of(' '));
    item.erase(item.find_last_not_of(' ') + 1);
    if (item.empty() || item[0] == '"' || item[0] == '\'') return {};
    items.push_back({item, false});
    begin = i + 1;
  }
  return items;
}

/// "; did you mean 'train.epochs'?", where all keys are listed, or what is missing in `key:value`.
std::string hint_for(const std::string& key, const OptionTable& table) {
  const size_t colon = key.find(':');
  const auto before = key.substr(0, colon);
  const bool has_key =
      std::ranges::any_of(table.rows, [&](const auto& row) { return row.key == before; });
  if (has_key) {
    return fmt::format("; is a space missing in {}?", quote(before + ": " + key.substr(colon + 1)));
  }
  const auto keys = table.keys_meant(key);
  if (!keys.empty()) return fmt::format("; did you mean '{}'?", fmt::join(keys, "' or '"));
  return table.help.empty() ? "" : "; " + table.help;
}

/// Explains a key that no row has.
UserError unknown_key(const YamlSetting& setting, const OptionTable& table) {
  std::vector<std::string> section;
  for (const auto& option : table.rows) {
    if (option.section() == setting.key) section.push_back(option.key);
  }
  if (!section.empty()) {
    return UserError("{}: '{}' is a section, not a setting; its keys are {}", setting.where,
                     setting.key, fmt::join(section, ", "));
  }
  const auto other = table.other_sections.find(setting.key.substr(0, setting.key.find('.')));
  if (other != table.other_sections.end()) {
    return UserError("{}: {} is a setting of {}", setting.where, quote(setting.key), other->second);
  }
  return UserError("{}: unknown key {}{}", setting.where, quote(setting.key),
                   hint_for(setting.key, table));
}

}  // namespace

const Option* SettingsReader::row(const std::string& key) const {
  const auto has_key = [&](const Option& option) { return option.key == key; };
  const auto found = std::find_if(table_.rows.begin(), table_.rows.end(), has_key);
  return found == table_.rows.end() ? nullptr : &*found;
}

void SettingsReader::apply(const YamlSetting& setting) {
  const Option* option = row(setting.key);
  if (option == nullptr) {
    const auto in_section = [&](const Option& one) { return one.section() == setting.key; };
    // `data:` with every line below it commented out.
    const bool empty_section = setting.value.kind == YamlValue::Kind::kNothing &&
                               std::any_of(table_.rows.begin(), table_.rows.end(), in_section);
    if (empty_section) return;
    throw unknown_key(setting, table_);
  }
  const std::string problem = option->assign(setting.value);
  if (!problem.empty()) throw UserError("{}: {}: {}", setting.where, setting.key, problem);
  set_[setting.key] = {setting.where, chain_.empty() ? fs::path() : chain_.back()};
  if (setting.key == table_.chooser) choosing_ = chain_;
}

/// A recipe's bases, each over the ones before it.
void SettingsReader::read_bases(const YamlSetting& setting, const fs::path& folder) {
  const auto& bases = setting.value.scalars;
  const auto is_empty = [](const YamlValue::Scalar& base) { return base.text.empty(); };
  if (bases.empty() || std::any_of(bases.begin(), bases.end(), is_empty)) {
    throw UserError("{}: base: expected the path of a recipe or a list of them, got {}",
                    setting.where, setting.value.shown());
  }
  for (const auto& base : bases) {
    read_file((folder / base.text).lexically_normal().string(), setting.where + ": base ");
  }
}

void SettingsReader::read_file(const std::string& path, const std::string& named) {
  // Bases that name a base twice each would double from file to file.
  if (++files_ > kMostFiles) {
    throw UserError("{}{}: base: leads to more than {} recipes; does one name a base twice?", named,
                    path, kMostFiles);
  }
  const std::string text = read_recipe(path, named);
  std::error_code error;
  fs::path file = fs::canonical(path, error);
  if (error) file = path;
  if (std::find(chain_.begin(), chain_.end(), file) != chain_.end()) {
    throw UserError("{}{}: a recipe that is its own base", named, path);
  }
  chain_.push_back(file);

  const auto settings = parse_yaml(text, path);
  if (settings.empty()) throw UserError("{}: holds no settings", path);
  for (const auto& setting : settings) {
    if (setting.key == "base") read_bases(setting, fs::path(path).parent_path());
  }
  for (const auto& setting : settings) {
    if (setting.key != "base") apply(setting);
  }
  chain_.pop_back();
}

void SettingsReader::read_text(const std::string& text, const std::string& source) {
  chain_.emplace_back(source);
  for (const auto& setting : parse_yaml(text, source)) apply(setting);
  chain_.pop_back();
}

/// A second value of a key on the command line.
void SettingsReader::apply_again(const YamlSetting& setting) {
  const Option* option = row(setting.key);
  auto* const* sources = option ? std::get_if<Sources*>(&option->field) : nullptr;
  if (sources == nullptr) {
    throw UserError("{}: {} is given twice; give it once", setting.where, setting.key);
  }
  auto all = (*sources)->items;
  apply(setting);
  for (const auto& more : (*sources)->items) {
    if (std::find(all.begin(), all.end(), more) != all.end()) {
      throw UserError(
          "{0}: {1}: {2} is named twice; put a list with braces into quotes, as in "
          "'{1}=[a-{{00..03}}.tar,b.tar]', or the shell makes several of it",
          setting.where, setting.key, printable(more));
    }
    all.push_back(more);
  }
  **sources = std::move(all);
}

/// Throws UserError for a setting that spaces make several words of: `data.train = x`,
/// `data.train= x`, `data.train x`.
void SettingsReader::refuse_several_words(const std::vector<std::string>& texts, size_t at,
                                          const std::string& source) const {
  const auto word = [&](size_t i) { return i < texts.size() ? texts[i] : ""; };
  const auto& text = texts[at];
  const auto key = text.substr(0, text.size() - text.ends_with('='));
  if (!row(key)) return;
  auto value = word(at + 1);
  const size_t equals = value.find('=');
  if (equals != std::string::npos && row(value.substr(0, equals))) return;  // the next setting
  if (key == text && equals == 0) value = value.size() > 1 ? value.substr(1) : word(at + 2);
  if (value.empty()) return;
  throw UserError("{}: expected key=value, got {}; did you mean {}?", source, text,
                  shown_shell_word(key + "=" + value));
}

void SettingsReader::read_overrides(const std::vector<std::string>& texts,
                                    const std::string& source) {
  std::set<std::string> given;
  for (size_t i = 0; i < texts.size(); ++i) {
    const auto& text = texts[i];
    refuse_several_words(texts, i, source);
    for (const auto& setting : parse_override(text, source)) {
      given.insert(setting.key).second ? apply(setting) : apply_again(setting);
    }
  }
}

std::vector<YamlSetting> SettingsReader::parse_override(const std::string& text,
                                                        const std::string& source) const {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || text.find_first_of(" \t\r\n") < equals) {
    throw UserError("{}: expected key=value, got {}", source, quote(text));
  }
  if (text_prefix(text) < text.size())
    throw UserError("{}: {} holds a control character or broken UTF-8", source, quote(text));
  const std::string key = text.substr(0, equals), value = text.substr(equals + 1);

  // The value of a text setting is taken literally, so that paths with # or { need no second
  // quoting.
  const Option* option = row(key);
  const bool is_text = option && std::holds_alternative<std::string*>(option->field);
  const bool is_sources = option && std::holds_alternative<Sources*>(option->field);
  const bool in_quotes = !value.empty() && (value[0] == '"' || value[0] == '\'');
  const bool in_brackets = value.starts_with('[') && value.ends_with(']');
  if ((is_text && !in_quotes) || (is_sources && !in_quotes && !in_brackets)) {
    return {{key, {YamlValue::Kind::kScalar, {{value, false}}}, source}};
  }
  if (is_sources && in_brackets) {
    const auto items = plain_items(value);
    if (!items.empty()) return {{key, {YamlValue::Kind::kList, items}, source}};
  }
  return parse_yaml_value(key, value, source);
}

void SettingsReader::apply_default(const std::string& text) {
  chain_.emplace_back("default");  // a value of nobody's
  for (const auto& setting : parse_override(text, "default")) apply(setting);
  chain_.pop_back();
}

bool SettingsReader::is_users_own(const std::string& key) const {
  const auto found = set_.find(key);
  if (found == set_.end()) return false;
  const auto& recipe = found->second.recipe;
  return recipe.empty() || std::ranges::find(choosing_, recipe) != choosing_.end();
}

/// See `finish`. A value that nothing set gives way in silence.
void SettingsReader::drop_unusable() {
  if (!table_.unusable) return;
  for (const auto& [key, instead, reason, unless] : table_.unusable()) {
    if (is_users_own(key) || is_users_own(unless)) continue;
    if (const auto found = set_.find(key); found != set_.end()) {
      log("{}: {}={} is left out: {}", found->second.where, key, row(key)->value(), reason);
    }
    apply_default(key + "=" + instead);
  }
}

void SettingsReader::finish(const std::string& where) {
  const auto apply_unset = [this](const std::vector<std::string>& texts) {
    const auto set = set_;  // a default does not keep a later one from holding
    for (const auto& text : texts) {
      if (!set.contains(text.substr(0, text.find('=')))) apply_default(text);
    }
  };
  if (table_.inherited) apply_unset(table_.inherited());
  if (table_.dependent_defaults) apply_unset(table_.dependent_defaults());
  drop_unusable();
  try {
    if (table_.check) table_.check();
  } catch (const UserError& error) {
    throw UserError("{}{}", where, error.what());
  }
}

}  // namespace nsvq
