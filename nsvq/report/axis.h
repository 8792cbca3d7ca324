#pragma once

#include <string>
#include <vector>

namespace nsvq {

/// Values beyond these say "diverged", not a height on paper; charts treat them as missing.
constexpr double largest_drawn = 1e300;
constexpr double smallest_drawn_log = 1e-300;

/// One axis of a chart: a range with round ticks, linear or logarithmic.
struct Axis {
  double low = 0;
  double high = 1;
  bool log = false;
  std::vector<double> ticks;
  std::vector<std::string> labels;  ///< one per tick

  /// 0 at `low`, 1 at `high`.
  double position(double value) const;
};

/// Ticks inside [min, max]; the range stays as given (widened where it is one value).
Axis tight_axis(double min, double max, int ticks);
/// The range grows to the next ticks.
Axis round_axis(double min, double max, int ticks);
/// The range grows to the next 1, 2 or 5 times a power of ten; `min` must be positive.
Axis log_axis(double min, double max, int ticks);

}  // namespace nsvq
