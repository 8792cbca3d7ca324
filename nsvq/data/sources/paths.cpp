#include "nsvq/data/sources/paths.h"

#include <fmt/ranges.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <vector>

#include "nsvq/data/sources/patterns.h"

namespace nsvq {

std::string home_path(const std::string& path) {
  const char* home = std::getenv("HOME");
  const bool at_home = path == "~" || path.starts_with("~/");
  return home != nullptr && at_home ? home + path.substr(1) : path;
}

std::string change_source(const std::string& source,
                          const std::function<std::string(const std::string&)>& change) {
  if (source.starts_with("builtin:") || source.starts_with("pipe:")) return source;
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
