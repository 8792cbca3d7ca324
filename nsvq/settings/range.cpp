#include "nsvq/settings/range.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace nsvq {

Range Range::at_least(double low) {
  Range range;
  range.text = fmt::format(">= {}", low);
  range.low = low;
  return range;
}

Range Range::above(double low) {
  Range range = at_least(low);
  range.text = fmt::format("> {}", low);
  range.above_low = true;
  return range;
}

Range Range::between(double low, double high) {
  Range range = at_least(low);
  range.text = fmt::format("{}..{}", low, high);
  range.high = high;
  return range;
}

Range Range::from_to_below(double low, double high) {
  Range range = between(low, high);
  range.text = fmt::format(">= {}, < {}", low, high);
  range.below_high = true;
  return range;
}

Range Range::one_of(std::vector<std::string> choices,
                    std::map<std::string, std::string> other_words) {
  Range range;
  range.text = fmt::format("{}", fmt::join(choices, "|"));
  range.choices = std::move(choices);
  range.other_words = std::move(other_words);
  return range;
}

Range Range::yes_no() {
  return one_of({"true", "false"}, {{"yes", "true"},
                                    {"on", "true"},
                                    {"1", "true"},
                                    {"no", "false"},
                                    {"off", "false"},
                                    {"0", "false"}});
}

Range Range::not_empty() {
  Range range;
  range.text = "not empty";
  range.fewest = 1;
  return range;
}

Range Range::any_text(std::string shown) {
  Range range;
  range.text = std::move(shown);
  return range;
}

Range Range::any_path(std::string shown) {
  Range range = any_text(std::move(shown));
  range.path = true;
  return range;
}

Range Range::list(size_t fewest, size_t most, Range each) {
  each.text = fmt::format("{} to {}, each {}", fewest, most, each.text);
  each.fewest = fewest;
  each.most = most;
  return each;
}

bool Range::contains(double value) const {
  const bool low_enough = below_high ? value < high : value <= high;
  const bool high_enough = above_low ? value > low : value >= low;
  return low_enough && high_enough;
}

bool Range::contains(const std::string& value) const {
  if (choices.empty()) return value.size() >= fewest;
  return std::find(choices.begin(), choices.end(), value) != choices.end();
}

}  // namespace nsvq
