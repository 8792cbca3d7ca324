#include "nsvq/report/histogram.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace nsvq {

std::vector<Bar> decade_bars(const std::vector<double>& values) {
  std::map<int, int64_t> decades;
  int64_t zeros = 0, not_finite = 0;
  for (const double value : values) {
    if (!std::isfinite(value)) {
      ++not_finite;
    } else if (value == 0) {
      ++zeros;
    } else {
      ++decades[std::max(-20, static_cast<int>(std::floor(std::log10(std::abs(value)))))];
    }
  }
  std::vector<Bar> bars;
  if (zeros > 0) bars.push_back({"0", "exactly 0", zeros});
  if (!decades.empty()) {
    for (int decade = decades.begin()->first; decade <= decades.rbegin()->first; ++decade) {
      bars.push_back({fmt::format("1e{}", decade), fmt::format("1e{} to 1e{}", decade, decade + 1),
                      decades[decade]});
    }
  }
  if (not_finite > 0) bars.push_back({"NaN", "not finite", not_finite});
  return bars;
}

}  // namespace nsvq
