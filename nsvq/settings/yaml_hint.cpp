#include "nsvq/settings/yaml.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

namespace nsvq {

namespace {

/// A line that is neither empty nor a comment.
struct Line {
  int number;
  size_t indent;
  std::string_view text;  ///< without the spaces around it
};

std::optional<Line> line_of(std::string_view whole, int number) {
  const size_t begin = whole.find_first_not_of(' ');
  if (begin == std::string_view::npos || whole[begin] == '#' || whole[begin] == '\r') {
    return std::nullopt;
  }
  const size_t end = whole.find_last_not_of(" \r") + 1;
  return Line{number, begin, whole.substr(begin, end - begin)};
}

/// The lines of a text up to line `last`.
std::vector<Line> lines_up_to(std::string_view text, int last) {
  std::vector<Line> lines;
  for (int number = 1; number <= last && !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    if (const auto line = line_of(text.substr(0, end), number)) lines.push_back(*line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

bool is_key_alone(const Line& line) { return line.text.ends_with(':'); }
bool has_colon(const Line& line) {
  return is_key_alone(line) || line.text.find(": ") != std::string_view::npos;
}
bool is_entry(const Line& line) { return line.text.starts_with("- "); }

bool is_missing_bracket(const Line& line, char open, char close) {
  return std::ranges::count(line.text, open) > std::ranges::count(line.text, close);
}

}  // namespace

std::string wrong_indentation(std::string_view text, int line) {
  constexpr auto rule = "keys of a section begin in one column";
  const auto lines = lines_up_to(text, line);
  if (lines.size() < 2 || lines.back().number != line) return "";
  const auto &here = lines.back(), &above = lines.at(lines.size() - 2);
  if (here.indent > above.indent && !is_key_alone(above) && !is_entry(above) && has_colon(above)) {
    return fmt::format(
        "wrong indentation: it begins further right than line {}, which has a value already; {}",
        above.number, rule);
  }
  const auto is_sibling = [&](const Line& one) { return one.indent == here.indent; };
  if (here.indent < above.indent && std::none_of(lines.begin(), lines.end() - 1, is_sibling)) {
    return fmt::format("wrong indentation: no line above begins in its column, {}; {}",
                       here.indent + 1, rule);
  }
  return "";
}

std::string likely_yaml_mistake(std::string_view text, int line) {
  if (auto wrong = wrong_indentation(text, line); !wrong.empty()) return wrong;
  const auto lines = lines_up_to(text, line);
  if (lines.empty() || lines.back().number != line) return "check the lines above it";
  const auto& here = lines.back();
  const auto& above = lines.size() > 1 ? lines.at(lines.size() - 2) : here;
  for (const auto& one : {above, here}) {
    const bool list = is_missing_bracket(one, '[', ']');
    if (!list && !is_missing_bracket(one, '{', '}')) continue;
    return fmt::format("is a '{}' missing in line {}?", list ? ']' : '}', one.number);
  }
  if (!has_colon(above) && !is_entry(above)) {
    return fmt::format("is ': ' missing in line {}?", above.number);
  }
  const size_t colon = here.text.find(": ");
  if (colon != std::string_view::npos && here.text.find(": ", colon + 1) != here.text.npos) {
    return "a value that holds ': ' needs quotes";
  }
  return "check its indentation, and that it has the form 'key: value'";
}

}  // namespace nsvq
