#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace nsvq {

/// `a{b,c}` becomes ab, ac; `x{08..10}` becomes x08, x09, x10 (zero-padded as written); braces may
/// nest. Throws UserError for unbalanced braces, for braces around neither a list nor a range, and
/// for more than `most_paths`.
std::vector<std::string> expand_braces(const std::string& pattern, int64_t most_paths = 1'000'000);

/// Splits at commas outside braces and brackets.
std::vector<std::string> split_list(std::string_view text);

/// Expands a comma-separated list of paths with braces and the wildcards *, ? and [..]; the matches
/// of a wildcard are sorted. Throws UserError naming a path that does not exist or a wildcard
/// without a match.
std::vector<std::filesystem::path> expand_paths(const std::string& patterns);

/// A path whose leading `~` is replaced by the user's home folder ($HOME), as shells do outside
/// quotes and not after `=`.
std::string home_path(const std::string& path);

/// A source with each of its paths changed. It may be a list with commas and braces, or no path at
/// all (builtin:...).
std::string change_source(const std::string& source,
                          const std::function<std::string(const std::string&)>& change);

}  // namespace nsvq
