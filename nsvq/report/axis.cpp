#include "nsvq/report/axis.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string_view>

namespace nsvq {
namespace {

/// 1, 2 or 5 times a power of ten, at least `rough`.
double nice_step(double rough) {
  const double decade = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * decade >= rough * (1 - 1e-9)) return factor * decade;
  return 10 * decade;
}

/// A range too narrow for its ticks to differ becomes one around the value.
void widen(double& low, double& high) {
  const double size = std::max(std::abs(low), std::abs(high));
  if (high - low > size * 1e-9 && high - low > 1e-290) return;
  const double margin = size > 1e-280 ? size * 0.1 : 1;
  low -= margin;
  high += margin;
}

/// The digits behind the point that tell multiples of `step` apart.
int decimals_for(double step) {
  return std::clamp(static_cast<int>(std::ceil(-std::log10(step) - 1e-9)), 0, 12);
}

/// 1.20e+05 becomes 1.2e5.
std::string scientific(double value, int decimals) {
  const std::string text = fmt::format("{:.{}e}", value, decimals);
  const size_t mark = text.find('e');
  return text.substr(0, mark) + "e" + std::to_string(std::stoi(text.substr(mark + 1)));
}

struct Unit {
  double size;
  std::string_view suffix;
};

/// All labels of an axis share one unit and one number of digits.
std::vector<std::string> linear_labels(const std::vector<double>& ticks, double step) {
  double size = 0;
  for (const double tick : ticks) size = std::max(size, std::abs(tick));
  std::vector<std::string> labels;
  if (size >= 1e12 || (size > 0 && size < 1e-3)) {
    const int digits =
        std::clamp(static_cast<int>(std::ceil(std::log10(size / step) - 1e-9)), 0, 12);
    for (const double tick : ticks) labels.push_back(tick == 0 ? "0" : scientific(tick, digits));
    return labels;
  }
  Unit unit{1, ""};
  for (const Unit larger : {Unit{1e3, "k"}, Unit{1e6, "M"}, Unit{1e9, "G"}})
    if (size >= 10 * larger.size) unit = larger;
  const int digits = decimals_for(step / unit.size);
  for (const double tick : ticks)
    labels.push_back(tick == 0 ? "0"
                               : fmt::format("{:.{}f}{}", tick / unit.size, digits, unit.suffix));
  return labels;
}

void add_ticks(Axis& axis, double step) {
  const double slack = 1e-9;
  const double first = std::ceil(axis.low / step - slack);
  const double last = std::floor(axis.high / step + slack);
  for (int i = 0; first + i <= last && i < 50; ++i) axis.ticks.push_back((first + i) * step);
  axis.labels = linear_labels(axis.ticks, step);
}

/// The n-th of ..., 0.1, 0.2, 0.5, 1, 2, 5, 10, ...; number 0 is 1.
double rung(int n) {
  const int decade = n >= 0 ? n / 3 : -((2 - n) / 3);
  static constexpr double factors[] = {1, 2, 5};
  return factors[n - 3 * decade] * std::pow(10, decade);
}

std::string log_label(double value) {
  if (value >= 1e5 || value < 1e-3) return scientific(value, 0);
  return fmt::format("{:.{}f}", value, decimals_for(value));
}

}  // namespace

double Axis::position(double value) const {
  if (log) {
    const double start = std::log10(low);  // the quotient of the values may overflow
    return (std::log10(value) - start) / (std::log10(high) - start);
  }
  return (value - low) / (high - low);
}

Axis tight_axis(double min, double max, int ticks) {
  widen(min, max);
  Axis axis{min, max, false, {}, {}};
  add_ticks(axis, nice_step((max - min) / ticks));
  return axis;
}

Axis round_axis(double min, double max, int ticks) {
  widen(min, max);
  const double step = nice_step((max - min) / ticks);
  Axis axis{
      std::floor(min / step + 1e-9) * step, std::ceil(max / step - 1e-9) * step, false, {}, {}};
  add_ticks(axis, step);
  return axis;
}

Axis log_axis(double min, double max, int ticks) {
  const auto below = [](double value) {
    int n = 3 * static_cast<int>(std::floor(std::log10(value))) + 3;
    while (rung(n) > value * (1 + 1e-9)) --n;
    return n;
  };
  int first = below(min), last = below(max);
  if (rung(last) < max * (1 - 1e-9)) ++last;
  if (first == last) {
    --first;
    ++last;
  }
  Axis axis{rung(first), rung(last), true, {}, {}};
  // Every rung while they fit, whole decades after that, then every so many decades.
  const int decades = (last - first) / 3;
  const int stride = last - first <= ticks ? 1 : 3 * std::max(1, (decades + ticks - 1) / ticks);
  for (int n = first; n <= last; ++n) {
    if (stride > 1 && (n % stride + stride) % stride != 0) continue;
    axis.ticks.push_back(rung(n));
    axis.labels.push_back(log_label(axis.ticks.back()));
  }
  return axis;
}

}  // namespace nsvq
