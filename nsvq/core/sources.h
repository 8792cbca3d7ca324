#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <utility>
#include <vector>

namespace nsvq {

/// Where images come from: one or several of `builtin:...`, folders, image files and tar shards,
/// each with braces and wildcards (nsvq/data/source.h opens them).
struct Sources {
  std::vector<std::string> items;

  Sources() = default;
  Sources(const char* item) : items{item} {}
  Sources(std::string item) : items{std::move(item)} {}
  Sources(std::vector<std::string> all) : items(std::move(all)) {}

  /// For people.
  std::string text() const { return fmt::format("{}", fmt::join(items, ", ")); }
  bool operator==(const Sources&) const = default;
};

}  // namespace nsvq
