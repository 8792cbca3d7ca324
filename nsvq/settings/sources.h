#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <utility>
#include <vector>

namespace nsvq {

/// Where images come from: one or several of `builtin:...`, folders, image files and tar shards,
/// each with braces and wildcards, and `pipe:COMMAND` (nsvq/data/sources/source.h opens them).
struct Sources {
  std::vector<std::string> items;
  /// Whether commands may be run: only where the user wrote them, on the command line or in a
  /// recipe, or has said so. What is read from a run, a model or tokens may be anyone's.
  bool pipes_allowed = false;

  Sources() = default;
  Sources(const char* item) : items{item} {}
  Sources(std::string item) : items{std::move(item)} {}
  Sources(std::vector<std::string> all) : items(std::move(all)) {}

  /// For people.
  std::string text() const { return fmt::format("{}", fmt::join(items, ", ")); }
  bool operator==(const Sources& other) const { return items == other.items; }
};

}  // namespace nsvq
