#include "nsvq/report/histogram.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>

#include "nsvq/report/html.h"
#include "nsvq/report/svg.h"

namespace nsvq {
namespace {

struct Bar {
  std::string label;  ///< below it
  std::string range;  ///< shown when it is pointed at
  int64_t count = 0;
};

/// One bar a decade from the lowest to the highest that has a value; values below 1e-20 count as
/// 1e-20.
std::vector<Bar> bars_of(const std::vector<double>& values) {
  std::map<int, int64_t> decades;
  int64_t zeros = 0, not_finite = 0;
  for (const double value : values) {
    if (!std::isfinite(value)) {
      ++not_finite;
    } else if (value == 0) {
      ++zeros;
    } else {
      ++decades[std::max(-20, static_cast<int>(std::floor(std::log10(value))))];
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

}  // namespace

std::string decade_histogram(const std::string& title, const std::vector<double>& values, int width,
                             int height) {
  std::string out = fmt::format(
      R"(<svg xmlns="http://www.w3.org/2000/svg" class="chart" width="{0}" height="{1}" )"
      R"(viewBox="0 0 {0} {1}" role="img" aria-label="{2}" )"
      R"(font-family="system-ui, -apple-system, 'Segoe UI', sans-serif" font-size="11">)",
      width, height, escape_html(title));
  out += svg_text(4, 17, "start", title,
                  R"(class="chart-title" font-size="13" font-weight="600" fill="#222")");
  const auto bars = bars_of(values);
  if (bars.empty())
    return out + svg_text(width / 2.0, height / 2.0, "middle", "no data") + "</svg>";
  int64_t most = 1;
  for (const Bar& bar : bars) most = std::max(most, bar.count);
  const double left = 8, bottom = height - 22.0, top = 44;
  const double slot = std::min((width - 2 * left) / static_cast<double>(bars.size()), 80.0);
  for (size_t i = 0; i < bars.size(); ++i) {
    const auto& [label, range, count] = bars[i];
    const double x = left + slot * static_cast<double>(i), middle = x + slot / 2;
    const double tall = (bottom - top) * static_cast<double>(count) / static_cast<double>(most);
    out += svg_text(middle, bottom + 14, "middle", label);
    if (count == 0) continue;
    out += fmt::format(
        R"(<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" class="chart-dot-0" )"
        R"(fill="#0072b2"><title>{}: {}</title></rect>)",
        x + slot * 0.1, bottom - tall, slot * 0.8, tall, range, count);
    out += svg_text(middle, bottom - tall - 4, "middle", fmt::format("{}", count));
  }
  out += svg_line(left, bottom, width - left, bottom,
                  R"(class="chart-axis" stroke="#999" stroke-width="1")");
  return out + "</svg>";
}

}  // namespace nsvq
