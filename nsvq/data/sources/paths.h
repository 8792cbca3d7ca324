#pragma once

#include <functional>
#include <string>

namespace nsvq {

/// `~` and what begins with `~/`, with the user's home folder ($HOME) in its place; anything else
/// as it is. A shell does the same, but not within quotes or after `=`.
std::string home_path(const std::string& path);

/// A source with each of its paths changed: it may be a list of them with commas and braces, or
/// none at all (builtin:...).
std::string change_source(const std::string& source,
                          const std::function<std::string(const std::string&)>& change);

}  // namespace nsvq
