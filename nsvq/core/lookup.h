#pragma once

#include <fmt/ranges.h>

#include <string>
#include <string_view>
#include <vector>

#include "nsvq/core/error.h"
#include "nsvq/core/text.h"

namespace nsvq {

/// The error for a name that a table does not have: "unknown metric 'psrn'; did you mean 'psnr'?
/// (there are: psnr, ssim)", with `key: ` before it where the name is the value of a setting.
inline UserError unknown_name(std::string_view what, std::string_view name,
                              const std::vector<std::string>& names, std::string_view key = "") {
  return UserError("{}{}unknown {} {}{} (there are: {})", key, key.empty() ? "" : ": ", what,
                   quote(name), did_you_mean(name, names), fmt::join(names, ", "));
}

/// The names of a table's entries, in its order.
template <typename Table>
std::vector<std::string> names_of(const Table& table) {
  std::vector<std::string> names;
  for (const auto& entry : table) names.emplace_back(entry.name);
  return names;
}

/// The entry of a table with this name; throws the UserError above if there is none.
template <typename Table>
auto& find_named(Table& table, std::string_view what, std::string_view name,
                 std::string_view key = "") {
  for (auto& entry : table) {
    if (entry.name == name) return entry;
  }
  throw unknown_name(what, name, names_of(table), key);
}

}  // namespace nsvq
