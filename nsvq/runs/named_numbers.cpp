#include "nsvq/runs/named_numbers.h"

#include <algorithm>
#include <functional>
#include <mutex>
#include <set>
#include <string>

namespace nsvq {

namespace {

/// A copy of the text that lasts as long as the program; equal names share one.
std::string_view lasting(std::string_view name) {
  static std::mutex mutex;
  static std::set<std::string, std::less<>> names;
  const std::lock_guard lock(mutex);
  const auto found = names.find(name);
  return found != names.end() ? *found : *names.emplace(name).first;
}

bool before(const std::pair<std::string_view, double>& item, std::string_view name) {
  return item.first < name;
}

}  // namespace

void NamedNumbers::add(std::string_view name, double value) {
  const auto at = std::lower_bound(items_.begin(), items_.end(), name, before);
  if (at != items_.end() && at->first == name) return;
  items_.emplace(at, lasting(name), value);
}

NamedNumbers::Items::const_iterator NamedNumbers::find(std::string_view name) const {
  const auto at = std::lower_bound(items_.begin(), items_.end(), name, before);
  return at != items_.end() && at->first == name ? at : items_.end();
}

}  // namespace nsvq
