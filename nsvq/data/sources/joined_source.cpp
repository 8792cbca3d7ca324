#include "nsvq/data/sources/joined_source.h"

#include <algorithm>
#include <set>
#include <stdexcept>
#include <utility>

#include "nsvq/core/error.h"

namespace nsvq {

JoinedSource::JoinedSource(std::vector<Part> parts) : parts_(std::move(parts)), starts_{0} {
  std::set<std::string> names;
  bool numbered = false;
  for (const auto& [source, prefix] : parts_) {
    starts_.push_back(starts_.back() + source->size());
    const auto classes = source->classes();
    names.insert(classes.begin(), classes.end());
    numbered |= classes.empty() && source->label(0) >= 0;
  }
  if (numbered && !names.empty()) {
    throw UserError(
        "classes of some sources are folders' names and those of others are numbers (.cls); "
        "give sources of one kind");
  }
  classes_.assign(names.begin(), names.end());
  for (const auto& part : parts_) {
    std::vector<int64_t> numbers;
    for (const auto& name : part.source->classes()) {
      numbers.push_back(std::lower_bound(classes_.begin(), classes_.end(), name) -
                        classes_.begin());
    }
    numbers_.push_back(std::move(numbers));
  }
}

JoinedSource::Place JoinedSource::place_of(int64_t index) const {
  if (index < 0) throw std::out_of_range("an image before the first");
  const size_t part = std::upper_bound(starts_.begin(), starts_.end(), index) - starts_.begin() - 1;
  return {part, index - starts_[part]};
}

std::string JoinedSource::key(int64_t index) const {
  const auto [part, own] = place_of(index);
  return parts_.at(part).prefix + parts_[part].source->key(own);
}

int64_t JoinedSource::label(int64_t index) const {
  const auto [part, own] = place_of(index);
  const int64_t label = parts_.at(part).source->label(own);
  return label < 0 || numbers_[part].empty() ? label : numbers_[part].at(label);
}

Image JoinedSource::load(int64_t index) const {
  const auto [part, own] = place_of(index);
  return parts_.at(part).source->load(own);
}

}  // namespace nsvq
