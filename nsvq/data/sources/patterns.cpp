#include "nsvq/data/sources/patterns.h"

#include <fmt/ranges.h>
#include <glob.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <system_error>
#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/core/text.h"
#include "nsvq/data/sources/part.h"

namespace nsvq {

namespace {

constexpr int64_t most_bytes = int64_t{1} << 28;
constexpr int deepest_braces = 16;
constexpr size_t longest_shown = 200, most_digits = 18;

std::optional<int64_t> parse_number(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || value < 0) {
    return std::nullopt;
  }
  return value;
}

/// The user's text and the most paths that it may expand to.
struct Pattern {
  std::string_view text;
  int64_t most_paths;
};

/// "08..10" becomes 08, 09, 10; empty if `text` is not a range.
std::vector<std::string> expand_range(std::string_view text, const Pattern& whole) {
  const size_t dots = text.find("..");
  if (dots == std::string_view::npos) return {};
  const std::string_view first = text.substr(0, dots), last = text.substr(dots + 2);
  const auto from = parse_number(first), to = parse_number(last);
  if (!from || !to || std::max(first.size(), last.size()) > most_digits) return {};
  if (std::max(*from, *to) - std::min(*from, *to) >= whole.most_paths) {
    throw UserError("the range {{{}}} in {} has more than {} members", text,
                    quote(whole.text, longest_shown), whole.most_paths);
  }
  const bool padded = (first.size() > 1 && first[0] == '0') || (last.size() > 1 && last[0] == '0');
  const size_t width = padded ? std::max(first.size(), last.size()) : 0;
  std::vector<std::string> members;
  for (int64_t i = *from;; i += *from <= *to ? 1 : -1) {
    members.push_back(fmt::format("{:0{}}", i, width));
    if (i == *to) return members;
  }
}

/// Position of the brace that closes the one at `open`.
size_t closing_brace(std::string_view pattern, size_t open) {
  int depth = 0;
  for (size_t i = open; i < pattern.size(); ++i) {
    if (pattern[i] == '{') ++depth;
    if (pattern[i] == '}' && --depth == 0) return i;
  }
  throw UserError("'{{' without '}}' in {}", quote(pattern, longest_shown));
}

std::vector<std::filesystem::path> match_wildcards(const std::string& pattern) {
  glob_t found{};
  const int status = glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found);
  std::vector<std::filesystem::path> paths(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  globfree(&found);
  if (status != 0 && status != GLOB_NOMATCH) throw UserError("cannot look up '{}'", pattern);
  if (paths.empty()) throw UserError("no file matches '{}'", pattern);
  std::sort(paths.begin(), paths.end());
  return paths;
}

bool exists(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

std::vector<std::string> expand(std::string_view pattern, const Pattern& whole, int depth);

/// The texts that a pair of braces expands to.
std::vector<std::string> expand_members(std::string_view inside, const Pattern& whole, int depth) {
  if (auto range = expand_range(inside, whole); !range.empty()) return range;
  const auto members = split_list(inside);
  if (members.size() == 1) {
    throw UserError("{{{}}} in {} is neither a list {{a,b}} nor a range {{00..03}}",
                    inside.substr(0, longest_shown), quote(whole.text, longest_shown));
  }
  std::vector<std::string> expanded;
  for (const auto& member : members) {
    auto texts = expand(member, whole, depth);
    std::move(texts.begin(), texts.end(), std::back_inserter(expanded));
    if (std::ssize(expanded) > whole.most_paths) break;  // the caller refuses so many
  }
  return expanded;
}

/// Expands a piece of the pattern `whole`, `depth` braces deep. The limit is checked before the
/// paths are made.
std::vector<std::string> expand(std::string_view pattern, const Pattern& whole, int depth) {
  if (depth > deepest_braces)
    throw UserError("braces nested too deep in {}", quote(whole.text, longest_shown));
  std::vector<std::string> paths = {""};
  int64_t length = 0;  // length of the longest path
  const auto require_room = [&](int64_t count, int64_t longest) {
    if (count > whole.most_paths || count * longest > most_bytes)
      throw UserError("{} names too many files", quote(whole.text, longest_shown));
    length = longest;
  };
  while (!pattern.empty()) {
    const size_t open = std::min(pattern.find('{'), pattern.size());
    if (pattern.find('}') < open)
      throw UserError("'}}' without '{{' in {}", quote(whole.text, longest_shown));
    require_room(std::ssize(paths), length + static_cast<int64_t>(open));
    for (auto& path : paths) path += pattern.substr(0, open);
    if (open == pattern.size()) break;
    const size_t close = closing_brace(pattern, open);
    const auto members =
        expand_members(pattern.substr(open + 1, close - open - 1), whole, depth + 1);
    size_t longest = 0;
    for (const auto& member : members) longest = std::max(longest, member.size());
    require_room(std::ssize(paths) * std::ssize(members), length + static_cast<int64_t>(longest));
    std::vector<std::string> longer;
    for (const auto& path : paths) {
      for (const auto& member : members) longer.push_back(path + member);
    }
    paths = std::move(longer);
    pattern.remove_prefix(close + 1);
  }
  return paths;
}

}  // namespace

std::vector<std::string> split_list(std::string_view text) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char c : text) {
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') --depth;
    if (c == ',' && depth == 0) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

std::vector<std::string> expand_braces(const std::string& pattern, int64_t most_paths) {
  return expand(pattern, {pattern, most_paths}, 0);
}

std::vector<std::filesystem::path> expand_paths(const std::string& patterns) {
  // An existing path is never expanded, even if its name contains braces, commas or wildcards.
  if (exists(patterns)) return {patterns};
  std::vector<std::filesystem::path> paths;
  for (const auto& part : split_list(patterns)) {
    if (part.empty()) throw UserError("an empty name between the commas of '{}'", patterns);
    for (const auto& path : expand_braces(part)) {
      if (exists(path)) {
        paths.emplace_back(path);
      } else if (path.find_first_of("*?[") != std::string::npos) {
        const auto matches = match_wildcards(path);
        paths.insert(paths.end(), matches.begin(), matches.end());
      } else if (path == patterns) {
        throw UserError("'{}' does not exist", path);
      } else {
        throw UserError("'{}' does not exist (from '{}')", path, patterns);
      }
    }
  }
  return paths;
}

std::string home_path(const std::string& path) {
  const char* home = std::getenv("HOME");
  const bool at_home = path == "~" || path.starts_with("~/");
  return home != nullptr && at_home ? home + path.substr(1) : path;
}

std::string change_source(const std::string& source,
                          const std::function<std::string(const std::string&)>& change) {
  if (source.starts_with("builtin:") || source.starts_with("pipe:")) return source;
  if (const NamedPart named(source); !named.part.empty()) {
    return change_source(named.source, change) + "#" + named.part;
  }
  if (std::error_code ignored; std::filesystem::exists(source, ignored)) return change(source);
  std::vector<std::string> changed;
  for (const auto& part : split_list(source)) {
    const bool begins_in_braces = part.starts_with('{');
    for (const auto& path : begins_in_braces ? expand_braces(part) : std::vector{part}) {
      changed.push_back(change(path));
    }
  }
  return fmt::format("{}", fmt::join(changed, ","));
}

}  // namespace nsvq
