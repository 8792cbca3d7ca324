#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nsvq/io/formats/json.h"

namespace nsvq {

// Charts as data, which the page draws (page/chart.js).

/// A line of a chart. Values that are not finite break it.
struct Series {
  std::string name;
  std::vector<double> x, y;
};

struct Chart {
  std::string title, x_label, y_label;
  std::vector<Series> series;
  bool log_y = false;
  bool log_x = false;
  std::vector<std::pair<double, std::string>> marks = {};  ///< dashed lines at an x, with a name
  std::optional<std::pair<double, double>> y_range;        ///< one y axis for charts side by side
  size_t beside = 1;                                       ///< charts in one row of the page
};

/// A line of fewer points.
struct Thinned {
  std::vector<std::pair<double, double>> points;  ///< (x, y)
  /// For each point the mean of its interval's finite values, for averages: the lowest and highest
  /// points alone do not tell it. Empty where no point was left out.
  std::vector<double> means;
};

/// About `limit` points at most (half as many again where the line is broken often): the lowest,
/// the highest and a missing one of each interval, and the two ends, so that peaks and gaps stay
/// visible.
Thinned thin(const Series& series, size_t limit);

/// A line as JSON, of about `limit` points: its name, x and y, and `mean` where it was thinned.
Json line_data(const Series& series, size_t limit);

/// Six digits, all that a chart can show, at a third of the length; null if not finite.
Json short_number(double value);
Json short_numbers(const std::vector<double>& values);

struct Bar {
  std::string label;  ///< below it
  std::string range;  ///< in words
  int64_t count = 0;
};

/// A histogram by size: one bar a decade from the lowest to the highest that has a value, with bars
/// for zeros and for non-finite values at the ends; values below 1e-20 count as 1e-20.
std::vector<Bar> decade_bars(const std::vector<double>& values);

}  // namespace nsvq
