#pragma once

#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

namespace nsvq {

/// Numbers by name, sorted by name. A log has millions of these with the same few names, so each
/// name is stored once for the whole program: 24 bytes a number, where a map of strings takes 80 or
/// more.
class NamedNumbers {
 public:
  using Items = std::vector<std::pair<std::string_view, double>>;

  /// A name that is there keeps its number.
  void add(std::string_view name, double value);
  Items::const_iterator find(std::string_view name) const;
  bool contains(std::string_view name) const { return find(name) != end(); }
  Items::const_iterator begin() const { return items_.begin(); }
  Items::const_iterator end() const { return items_.end(); }
  size_t size() const { return items_.size(); }

 private:
  Items items_;
};

}  // namespace nsvq
