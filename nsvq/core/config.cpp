#include "nsvq/core/config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

#include "nsvq/core/error.h"
#include "nsvq/core/options.h"
#include "nsvq/core/text.h"
#include "nsvq/core/yaml.h"

namespace nsvq {

namespace {

namespace fs = std::filesystem;

constexpr size_t kMostBytes = 1 << 20;

/// The text of a recipe; `named` says, for errors, where its name came from.
std::string read_recipe(const std::string& path, const std::string& named) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) throw UserError("{}{}: a folder, not a recipe", named, path);
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    throw UserError("{}{}: cannot read this recipe: {}", named, path,
                    std::strerror(errno ? errno : EIO));
  }
  // Read with a bound, since a device or a pipe has no size to check first.
  std::string text(kMostBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) throw UserError("{}{}: reading failed", named, path);
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.size() > kMostBytes) throw UserError("{}{}: over 1 MB, so not a recipe", named, path);
  return text;
}

std::string leaf(const std::string& key) { return key.substr(key.rfind('.') + 1); }

/// Explains a key that no option has.
UserError unknown_key(const YamlSetting& setting, const std::vector<Option>& table) {
  std::vector<std::string> keys, leaves, section;
  for (const auto& option : table) {
    keys.push_back(option.key);
    leaves.push_back(leaf(option.key));
    if (option.section() == setting.key) section.push_back(option.key);
  }
  if (!section.empty()) {
    return UserError("{}: '{}' is a section, not a setting; its keys are {}", setting.where,
                     setting.key, fmt::join(section, ", "));
  }
  std::string hint = did_you_mean(setting.key, keys);
  if (hint.empty() && !did_you_mean(leaf(setting.key), leaves).empty()) {
    // The right name in the wrong section, such as `epochs` for train.epochs.
    const auto at = std::find(leaves.begin(), leaves.end(), nearest(leaf(setting.key), leaves));
    hint = fmt::format("; did you mean '{}'?", keys[at - leaves.begin()]);
  }
  if (hint.empty()) hint = "; `nsvq config --reference` lists all keys";
  return UserError("{}: unknown key {}{}", setting.where, quote(setting.key), hint);
}

void apply(const YamlSetting& setting, const std::vector<Option>& table) {
  const auto has_key = [&](const Option& option) { return option.key == setting.key; };
  const auto option = std::find_if(table.begin(), table.end(), has_key);
  if (option == table.end()) {
    const auto in_section = [&](const Option& option) { return option.section() == setting.key; };
    // `data:` with every line below it commented out.
    const bool empty_section = setting.value.kind == YamlValue::Kind::kNothing &&
                               std::any_of(table.begin(), table.end(), in_section);
    if (empty_section) return;
    throw unknown_key(setting, table);
  }
  const std::string problem = option->assign(setting.value);
  if (!problem.empty()) throw UserError("{}: {}: {}", setting.where, setting.key, problem);
}

/// Applies a recipe after the recipes it is based on. `chain` holds the files being read, for
/// cycles.
void apply_recipe(const std::string& path, const std::string& named, std::vector<fs::path>& chain,
                  const std::vector<Option>& table) {
  const std::string text = read_recipe(path, named);
  std::error_code error;
  fs::path file = fs::canonical(path, error);
  if (error) file = path;
  if (std::find(chain.begin(), chain.end(), file) != chain.end()) {
    throw UserError("{}{}: a recipe that is its own base", named, path);
  }
  chain.push_back(file);

  const auto settings = parse_yaml(text, path);
  if (settings.empty()) throw UserError("{}: holds no settings", path);
  for (const auto& setting : settings) {
    if (setting.key != "base") continue;
    if (setting.value.kind != YamlValue::Kind::kScalar || setting.value.scalars[0].text.empty()) {
      throw UserError("{}: base: expected the path of a recipe, got {}", setting.where,
                      setting.value.shown());
    }
    const fs::path base = fs::path(path).parent_path() / setting.value.scalars[0].text;
    apply_recipe(base.lexically_normal().string(), setting.where + ": base ", chain, table);
  }
  for (const auto& setting : settings) {
    if (setting.key != "base") apply(setting, table);
  }
  chain.pop_back();
}

void apply_override(const std::string& text, const std::vector<Option>& table) {
  const std::string source = "command line";
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || text.find_first_of(" \t\r\n") < equals) {
    throw UserError("{}: expected key=value, got {}", source, quote(text));
  }
  if (text_prefix(text) < text.size())
    throw UserError("{}: {} is not UTF-8 text", source, quote(text));
  const std::string key = text.substr(0, equals), value = text.substr(equals + 1);

  // The value of a text setting stands as it is, so that paths with # or { need no second quoting.
  const auto literal = [&](const Option& option) {
    return option.key == key && std::holds_alternative<std::string*>(option.field);
  };
  const bool in_quotes = !value.empty() && (value[0] == '"' || value[0] == '\'');
  if (!in_quotes && std::any_of(table.begin(), table.end(), literal)) {
    apply({key, {YamlValue::Kind::kScalar, {{value, false}}}, source}, table);
    return;
  }
  for (const auto& setting : parse_yaml_value(key, value, source)) apply(setting, table);
}

}  // namespace

Config load_config(const std::string& path, const std::vector<std::string>& overrides) {
  Config config;
  const auto table = options(config);
  if (!path.empty()) {
    std::vector<fs::path> chain;
    apply_recipe(path, "", chain, table);
  }
  for (const auto& override_text : overrides) apply_override(override_text, table);
  try {
    check(config);
  } catch (const UserError& error) {
    // What does not fit together may come from either place.
    const char* where = overrides.empty() ? ": " : " with the command line: ";
    throw UserError("{}{}{}", path, path.empty() ? "" : where, error.what());
  }
  return config;
}

Config parse_config(const std::string& text, const std::string& source) {
  Config config;
  const auto table = options(config);
  for (const auto& setting : parse_yaml(text, source)) apply(setting, table);
  try {
    check(config);
  } catch (const UserError& error) {
    throw UserError("{}: {}", source, error.what());
  }
  return config;
}

std::string to_yaml(const Config& config, Detail detail) {
  Config copy = config, defaults;
  const auto table = options(copy), usual = options(defaults);
  std::string text, section;
  for (size_t i = 0; i < table.size(); ++i) {
    const auto& option = table[i];
    const bool of_a_method = option.section().find('.') != std::string::npos;
    if (detail == Detail::brief && of_a_method && option.value() == usual[i].value()) continue;
    if (option.section() != section) {
      section = option.section();
      text += fmt::format("\n{}:\n", section);
    }
    text +=
        fmt::format("{}{}: {}\n", section.empty() ? "" : "  ", leaf(option.key), option.value());
  }
  return text;
}

}  // namespace nsvq
