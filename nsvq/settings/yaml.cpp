#include "nsvq/settings/yaml.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

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

/// Where the first node of a document begins.
class FirstNode : public YAML::EventHandler {
 public:
  std::optional<YAML::Mark> mark;

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& at, YAML::anchor_t) override { note(at); }
  void OnAlias(const YAML::Mark& at, YAML::anchor_t) override { note(at); }
  void OnScalar(const YAML::Mark& at, const std::string&, YAML::anchor_t,
                const std::string&) override {
    note(at);
  }
  void OnSequenceStart(const YAML::Mark& at, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    note(at);
  }
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark& at, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {
    note(at);
  }
  void OnMapEnd() override {}

 private:
  void note(const YAML::Mark& at) {
    if (!mark) mark = at;
  }
};

/// Where a second document begins, if there is one. YAML::LoadAll would tell too, but there are
/// texts (a stray bracket) for which it makes documents until memory is full.
std::optional<YAML::Mark> second_document(std::string_view text) {
  std::istringstream stream{std::string(text)};
  YAML::Parser parser(stream);
  FirstNode first, second;
  if (!parser.HandleNextDocument(first) || !parser.HandleNextDocument(second)) return std::nullopt;
  return second.mark.value_or(YAML::Mark());
}

/// Turns yaml-cpp's tree into settings with dotted keys. Nodes carry the line and column where
/// they begin (YAML::Mark).
class Flattener {
 public:
  /// With a `root` key the text is the value of that key; without, it is a map.
  Flattener(std::string_view text, std::string source, std::string root)
      : text_(text), source_(std::move(source)), root_(std::move(root)) {}

  std::vector<YamlSetting> settings() {
    check_characters();
    try {
      if (const auto mark = second_document(text_)) {
        const auto indentation = wrong_indentation(text_, mark->line + 1);
        throw error(*mark, indentation.empty() ? "stray text, or a second document" : indentation);
      }
      const auto tree = YAML::Load(std::string(text_));
      root_.empty() ? add_map(tree, "", 0) : add_value(root_, tree, source_, 0);
    } catch (const YAML::Exception& problem) {
      const bool alias = problem.msg.rfind(YAML::ErrorMsg::UNKNOWN_ANCHOR, 0) == 0;
      throw error(problem.mark,
                  alias ? kAliasHint : "no valid YAML: " + problem.msg + hint_at(problem.mark));
    }
    return std::move(settings_);
  }

 private:
  /// What is likely wrong at a line of a recipe; nothing for the value of a single key.
  std::string hint_at(const YAML::Mark& mark) const {
    if (!root_.empty() || mark.line < 0) return "";
    return "; " + likely_yaml_mistake(text_, mark.line + 1);
  }
  std::string where(const YAML::Mark& mark) const {
    const bool has_line = root_.empty() && mark.line >= 0;
    return has_line ? fmt::format("{}:{}", source_, mark.line + 1) : source_;
  }
  UserError error(const YAML::Mark& mark, std::string_view message) const {
    return UserError("{}: {}{}{}", where(mark), root_, root_.empty() ? "" : ": ", message);
  }

  void add_map(const YAML::Node& map, const std::string& prefix, int depth) {
    constexpr int deepest = 8;
    check_start(map);
    if (map.IsScalar()) throw error(map.Mark(), "expected lines such as 'train.epochs: 10'");
    if (map.IsSequence()) throw error(map.Mark(), "a list where a key was expected");
    if (depth > deepest) throw error(map.Mark(), "maps are nested too deeply");
    for (const auto& item : map) {
      const auto mark = item.first.Mark();
      if (item.first.IsNull()) throw error(mark, "a key is missing before ':'");
      if (!item.first.IsScalar()) throw error(mark, "a list or map where a key was expected");
      const std::string key = prefix + scalar(item.first).text;
      if (!seen_.insert(key).second) {
        throw error(mark, fmt::format("key {} appears twice", quote(key)));
      }
      add_value(key, item.second, where(mark), depth);
    }
  }

  void add_value(const std::string& key, const YAML::Node& value, const std::string& where,
                 int depth) {
    using Kind = YamlValue::Kind;
    if (value.IsMap()) return add_map(value, key + ".", depth + 1);
    check_start(value);
    YamlSetting setting = {key, {}, where};
    if (value.IsScalar()) setting.value = {Kind::kScalar, {scalar(value)}};
    if (value.IsSequence()) {
      setting.value.kind = Kind::kList;
      for (const auto& entry : value) {
        if (entry.IsNull()) throw error(entry.Mark(), "a list has an empty entry");
        if (!entry.IsScalar()) throw error(entry.Mark(), "a list or map inside a list");
        setting.value.scalars.push_back(scalar(entry));
      }
    }
    settings_.push_back(std::move(setting));
  }

  YamlValue::Scalar scalar(const YAML::Node& node) const {
    check_start(node);
    if (text_prefix(node.Scalar()) < node.Scalar().size()) {
      throw error(node.Mark(), "a control character or broken UTF-8");
    }
    return {node.Scalar(), node.Tag() == "!"};
  }

  /// Refuses anchors and tags, with which a node begins. An alias is its anchor's node again, so
  /// none is reached: they could multiply without bound. An open quote, which yaml-cpp ends at the
  /// end of the file without an error, is refused too.
  void check_start(const YAML::Node& node) const {
    const auto mark = node.Mark();
    const auto rest = text_.substr(std::min<size_t>(std::max(mark.pos, 0), text_.size()));
    const char first = rest.empty() ? ' ' : rest[0];
    if (first == '&') throw error(mark, kAliasHint);
    // yaml-cpp gives "?" to plain and "!" to quoted values.
    if (const auto& tag = node.Tag(); !tag.empty() && tag != "?" && tag != "!") {
      throw error(mark, "tags are not supported; quote a value that begins with !");
    }
    if (node.Tag() != "!" || (first != '"' && first != '\'')) return;
    for (size_t at = 1; at < rest.size() && rest[at] != '\n'; ++at) {
      const bool escape = first == '"' ? rest[at] == '\\' : rest.substr(at, 2) == "''";
      if (!escape && rest[at] == first) return;
      at += escape;
    }
    throw error(mark, "a quote is not closed on its line");
  }

  /// Refuses what the parser would misread without an error.
  void check_characters() const {
    YAML::Mark mark;
    const size_t end = text_prefix(text_);
    mark.line = static_cast<int>(std::count(text_.begin(), text_.begin() + end, '\n'));
    if (end < text_.size())
      throw error(mark, "not a text file: a control character or broken UTF-8");
    mark.line = 0;
    for (size_t at = 0; at < text_.size(); ++mark.line) {
      const size_t first = text_.find_first_not_of(' ', at);
      if (first < text_.size() && text_[first] == '\t')
        throw error(mark, "a tab indents this line; use spaces");
      at = std::min(text_.find('\n', at), text_.size() - 1) + 1;
    }
  }

  std::string_view text_;
  std::string source_, root_;
  std::set<std::string> seen_;
  std::vector<YamlSetting> settings_;
};

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
  return Flattener(text, source, "").settings();
}

std::vector<YamlSetting> parse_yaml_value(const std::string& key, std::string_view text,
                                          const std::string& source) {
  return Flattener(text, source, key).settings();
}

}  // namespace nsvq
