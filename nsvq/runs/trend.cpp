#include "nsvq/runs/trend.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace nsvq {

namespace {

/// dB that a factor of ten makes.
double decade(TrendOf of) { return of == TrendOf::absolute_error ? -20 : -10; }

double in_decibels(TrendOf of, double value) {
  return of == TrendOf::decibels ? value : decade(of) * std::log10(value);
}

}  // namespace

double gain_of_evaluations(const Trend& trend, double share) {
  if (trend.points.empty()) return NAN;
  const auto [end, last] = trend.points.back();
  const double latest = (1 - share) * end;
  const auto found =
      std::find_if(trend.points.rbegin(), trend.points.rend(),
                   [&](const auto& point) { return point.first > 0 && point.first <= latest; });
  if (found == trend.points.rend()) return NAN;
  const auto& [step, value] = *found;
  return (in_decibels(trend.of, last) - in_decibels(trend.of, value)) / std::log2(end / step);
}

double gain_of_steps(const Trend& trend, double steps) {
  struct {
    double sum = 0, count = 0;
  } quarter, half;
  for (const auto& [step, value] : trend.points) {
    if (step <= steps / 4) continue;
    auto& period = step > steps / 2 ? half : quarter;
    period.sum += value;
    ++period.count;
  }
  return in_decibels(trend.of, half.sum / half.count) -
         in_decibels(trend.of, quarter.sum / quarter.count);
}

std::string gain_in_words(const Trend& trend, double gain) {
  if (trend.of == TrendOf::decibels) {
    return fmt::format("{} still rises, by {:.1f} dB for twice the steps", trend.what, gain);
  }
  return fmt::format("{} still falls, by {:.0f} % for twice the steps", trend.what,
                     100 * (1 - std::pow(10, gain / decade(trend.of))));
}

}  // namespace nsvq
