#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace nsvq {

struct Series {
  std::string name;
  std::vector<double> x, y;  ///< the longer one is cut
};

struct Chart {
  std::string title, x_label, y_label;
  std::vector<Series> series;
  bool log_y = false;
  bool log_x = false;
  std::vector<std::pair<double, std::string>> marks = {};  ///< dashed lines at an x, with a name
  std::optional<std::pair<double, double>> x_range;        ///< to give several charts one x axis
  std::optional<std::pair<double, double>> y_range;        ///< of a page's charts, likewise
  size_t beside = 1;                                       ///< of a page's charts in one row
};

/// A line chart as one <svg> element. It stands alone; in a page, the classes on its parts
/// (`chart-title`, `chart-grid`, `chart-text`, `chart-line-N`, `chart-dot-N`) let a
/// style sheet recolour it. Points that are not finite (or not positive on a logarithmic axis)
/// break the line.
std::string to_svg(const Chart& chart, int width = 520, int height = 280);

}  // namespace nsvq
