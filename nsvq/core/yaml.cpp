#include "nsvq/core/yaml.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/core/text.h"

namespace nsvq {

namespace {

constexpr const char* kAliasHint =
    "anchors and aliases are not supported; quote a value that begins with & or *";

/// Turns parser events into settings. Working on events, not on a tree, gives every error its line
/// and leaves aliases, which could multiply, unexpanded.
class Flattener : public YAML::EventHandler {
 public:
  /// With a `root` key the document is the value of that key; without, it is a map.
  Flattener(std::string_view text, std::string source, std::string root)
      : text_(text), source_(std::move(source)), root_(root) {
    if (!root.empty()) maps_.push_back({"", std::move(root), {}});
  }

  /// `message` with source, line and root key in front.
  UserError error(const YAML::Mark& mark, std::string_view message) const {
    return UserError("{}: {}{}{}", where(mark), root_, root_.empty() ? "" : ": ", message);
  }
  std::string where(const YAML::Mark& mark) const {
    const bool has_line = root_.empty() && mark.line >= 0;
    return has_line ? fmt::format("{}:{}", source_, mark.line + 1) : source_;
  }
  std::vector<YamlSetting> settings() && { return std::move(settings_); }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1) throw error(mark, "stray text, or a second document");
  }
  void OnDocumentEnd() override {}
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { throw error(mark, kAliasHint); }

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    refuse(mark, "", anchor);
    if (maps_.empty()) return;
    if (in_list_) throw error(mark, "a list has an empty entry");
    if (!maps_.back().key) throw error(mark, "a key is missing before ':'");
    add(YamlValue::Kind::kNothing);
    maps_.back().key.reset();
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    refuse(mark, tag, anchor);
    if (tag == "!") check_quotes(mark);
    if (text_prefix(value) < value.size()) throw error(mark, "a control character or broken UTF-8");
    if (maps_.empty()) throw error(mark, "expected lines such as 'train.epochs: 10'");
    if (in_list_) {
      settings_.back().value.scalars.push_back({value, tag == "!"});
    } else if (!maps_.back().key) {
      begin_key(mark, value);
    } else {
      add(YamlValue::Kind::kScalar).scalars.push_back({value, tag == "!"});
      maps_.back().key.reset();
    }
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    refuse(mark, tag, anchor);
    if (in_list_) throw error(mark, "a list inside a list");
    if (maps_.empty() || !maps_.back().key) throw error(mark, "a list where a key was expected");
    add(YamlValue::Kind::kList);
    in_list_ = true;
  }
  void OnSequenceEnd() override {
    in_list_ = false;
    maps_.back().key.reset();
  }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    refuse(mark, tag, anchor);
    if (in_list_) throw error(mark, "a map inside a list");
    if (!maps_.empty() && !maps_.back().key) throw error(mark, "a map where a key was expected");
    if (maps_.size() > 8) throw error(mark, "maps are nested too deeply");
    maps_.push_back({maps_.empty() ? "" : key() + ".", std::nullopt, mark});
  }
  void OnMapEnd() override {
    maps_.pop_back();
    if (!maps_.empty()) maps_.back().key.reset();
  }

 private:
  struct Map {
    std::string prefix;
    std::optional<std::string> key;  ///< set between a key and the end of its value
    YAML::Mark mark;                 ///< of that key
  };

  std::string key() const { return maps_.back().prefix + *maps_.back().key; }

  void begin_key(const YAML::Mark& mark, const std::string& name) {
    maps_.back().key = name;
    maps_.back().mark = mark;
    if (!seen_.insert(key()).second)
      throw error(mark, fmt::format("key {} appears twice", quote(key())));
  }

  YamlValue& add(YamlValue::Kind kind) {
    settings_.push_back({key(), {kind, {}}, where(maps_.back().mark)});
    return settings_.back().value;
  }

  /// yaml-cpp ends an open quote at the end of the file without a word, so look for its partner
  /// here.
  void check_quotes(const YAML::Mark& mark) const {
    const std::string_view rest = text_.substr(std::min<size_t>(mark.pos, text_.size()));
    const char quote = rest.empty() ? ' ' : rest[0];
    if (quote != '"' && quote != '\'') return;
    for (size_t at = 1; at < rest.size() && rest[at] != '\n'; ++at) {
      const bool escape = quote == '"' ? rest[at] == '\\' : rest.substr(at, 2) == "''";
      if (escape) {
        ++at;
      } else if (rest[at] == quote) {
        return;
      }
    }
    throw error(mark, "a quote is not closed on its line");
  }

  void refuse(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) const {
    if (anchor != 0) throw error(mark, kAliasHint);
    // The parser gives "?" to plain and "!" to quoted values.
    if (!tag.empty() && tag != "?" && tag != "!")
      throw error(mark, "tags are not supported; quote a value that begins with !");
  }

  std::string_view text_;
  std::string source_, root_;
  std::vector<Map> maps_;
  std::set<std::string> seen_;
  std::vector<YamlSetting> settings_;
  bool in_list_ = false;
  int documents_ = 0;
};

/// What the parser would misread without a word.
void check_characters(std::string_view text, const Flattener& flattener) {
  YAML::Mark mark;
  const size_t end = text_prefix(text);
  mark.line = static_cast<int>(std::count(text.begin(), text.begin() + end, '\n'));
  if (end < text.size())
    throw flattener.error(mark, "not a text file: a control character or broken UTF-8");

  mark.line = 0;
  for (size_t at = 0; at < text.size(); ++mark.line) {
    const size_t first = text.find_first_not_of(' ', at);
    if (first < text.size() && text[first] == '\t')
      throw flattener.error(mark, "a tab indents this line; use spaces");
    at = text.find('\n', at);
    at = at == std::string_view::npos ? text.size() : at + 1;
  }
}

std::vector<YamlSetting> parse(std::string_view text, Flattener flattener) {
  check_characters(text, flattener);
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(flattener)) {
    }
  } catch (const YAML::Exception& error) {
    const bool alias = error.msg.rfind(YAML::ErrorMsg::UNKNOWN_ANCHOR, 0) == 0;
    throw flattener.error(error.mark, alias ? kAliasHint : "no valid YAML: " + error.msg);
  }
  return std::move(flattener).settings();
}

}  // namespace

std::string YamlValue::shown() const {
  if (kind == Kind::kNothing) return "nothing";
  std::string text;
  for (const auto& scalar : scalars) {
    if (!text.empty()) text += ", ";
    text += scalar.quoted ? '"' + scalar.text + '"' : scalar.text;
  }
  return quote(kind == Kind::kList ? "[" + text + "]" : text);
}

std::vector<YamlSetting> parse_yaml(std::string_view text, const std::string& source) {
  // Some editors begin a file with a byte-order mark.
  if (text.substr(0, 3) == "\xef\xbb\xbf") text.remove_prefix(3);
  return parse(text, Flattener(text, source, ""));
}

std::vector<YamlSetting> parse_yaml_value(const std::string& key, std::string_view text,
                                          const std::string& source) {
  auto settings = parse(text, Flattener(text, source, key));
  if (settings.empty()) settings.push_back({key, {}, source});
  return settings;
}

}  // namespace nsvq
