#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace nsvq {

struct Bar {
  std::string label;  ///< below it
  std::string range;  ///< in words
  int64_t count = 0;
};

/// One bar a decade from the lowest to the highest that has a value, with bars for zeros and for
/// what is not finite at the ends; values below 1e-20 count as 1e-20.
std::vector<Bar> decade_bars(const std::vector<double>& values);

}  // namespace nsvq
