#include "nsvq/report/chart.h"
#include "nsvq/io/formats/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <set>

namespace nsvq {

namespace {

/// The points of [begin, end) worth keeping.
std::set<size_t> extremes(const std::vector<double>& y, size_t begin, size_t end) {
  const size_t none = y.size();
  size_t low = none, high = none, gap = none;
  for (size_t i = begin; i < end; ++i) {
    if (!std::isfinite(y[i])) {
      if (gap == none) gap = i;
      continue;
    }
    if (low == none || y[i] < y[low]) low = i;
    if (high == none || y[i] > y[high]) high = i;
  }
  std::set<size_t> kept{low, high, gap};
  kept.erase(none);
  return kept;
}

/// The mean of the finite values of [begin, end), one by one: a sum could overflow.
double mean_of(const std::vector<double>& y, size_t begin, size_t end) {
  double mean = 0, count = 0;
  for (size_t i = begin; i < end; ++i)
    if (std::isfinite(y[i])) mean += (y[i] - mean) / ++count;
  return mean;
}

}  // namespace

Thinned thin(const Series& series, size_t limit) {
  const auto& [name, x, y] = series;
  Thinned out;
  if (x.size() <= limit) {
    for (size_t i = 0; i < x.size(); ++i) out.points.emplace_back(x[i], y[i]);
    return out;
  }
  const size_t intervals = std::max<size_t>(1, limit / 2);
  std::map<size_t, double> kept;  // with the mean of the interval
  for (size_t i = 0; i < intervals; ++i) {
    const size_t begin = i * x.size() / intervals, end = (i + 1) * x.size() / intervals;
    auto chosen = extremes(y, begin, end);
    if (i == 0) chosen.insert(0);
    if (i + 1 == intervals) chosen.insert(x.size() - 1);
    const double mean = mean_of(y, begin, end);
    for (const size_t one : chosen) kept[one] = mean;
  }
  for (const auto& [i, mean] : kept) {
    out.points.emplace_back(x[i], y[i]);
    // A gap of the line is one of its average too.
    out.means.push_back(std::isfinite(y[i]) ? mean : std::numeric_limits<double>::quiet_NaN());
  }
  return out;
}

Json line_data(const Series& series, size_t limit) {
  const auto thinned = thin(series, limit);
  auto x = Json::array(), y = x;
  for (const auto& point : thinned.points) {
    x.push_back(short_number(point.first));
    y.push_back(short_number(point.second));
  }
  Json line = {{"name", series.name}, {"x", x}, {"y", y}};
  if (!thinned.means.empty()) line["mean"] = short_numbers(thinned.means);
  return line;
}

Json short_number(double value) {
  if (!std::isfinite(value)) return nullptr;
  if (value == std::round(value) && std::abs(value) < 1e15) return static_cast<int64_t>(value);
  return std::strtod(fmt::format("{:.6g}", value).c_str(), nullptr);
}

Json short_numbers(const std::vector<double>& values) {
  auto out = Json::array();
  for (const double value : values) out.push_back(short_number(value));
  return out;
}

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
