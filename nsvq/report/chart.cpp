#include "nsvq/report/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <limits>
#include <string_view>

#include "nsvq/report/axis.h"
#include "nsvq/report/html.h"
#include "nsvq/report/line.h"
#include "nsvq/report/svg.h"

namespace nsvq {
namespace {

constexpr size_t most_points = 500;

/// Where a chart's parts go, and its axes.
struct Frame {
  double left, right, top, bottom;
  Axis x, y;

  double at_x(double value) const { return left + x.position(value) * (right - left); }
  double at_y(double value) const { return bottom - y.position(value) * (bottom - top); }
};

struct Drawn {
  std::string name;
  Segments segments;
};

std::vector<Drawn> drawn_series(const Chart& chart) {
  const auto drawable = [&](Point p) {
    if (!(std::abs(p.x) <= largest_drawn && std::abs(p.y) <= largest_drawn)) return false;
    return (!chart.log_y || p.y >= smallest_drawn_log) &&
           (!chart.log_x || p.x >= smallest_drawn_log);
  };
  std::vector<Drawn> out;
  for (const Series& series : chart.series) {
    std::vector<Point> points(std::min(series.x.size(), series.y.size()));
    for (size_t i = 0; i < points.size(); ++i) points[i] = {series.x[i], series.y[i]};
    out.push_back(
        {series.name, split_segments(thin(points, most_points, drawable).points, drawable)});
  }
  return out;
}

struct Bounds {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  bool empty() const { return low > high; }
};

/// Axes around everything drawn; false if there is nothing.
bool fit_axes(const Chart& chart, const std::vector<Drawn>& drawn, int height, Frame& frame) {
  Bounds x, y;
  for (const Drawn& series : drawn)
    for (const auto& segment : series.segments)
      for (const Point& point : segment) {
        x.add(point.x);
        y.add(point.y);
      }
  if (x.empty()) return false;
  if (chart.x_range) {
    x.add(chart.x_range->first);
    x.add(chart.x_range->second);
  }
  const int ticks = std::max(2, height / 55);
  frame.x = chart.log_x ? log_axis(x.low, x.high, 6) : tight_axis(x.low, x.high, 6);
  frame.y = chart.log_y ? log_axis(y.low, y.high, ticks) : round_axis(y.low, y.high, ticks);
  return true;
}

/// Names beside a stroke of their colour, in as many rows as they need; moves `top` below them.
std::string legend(const std::vector<Drawn>& drawn, double left, double right, double& top) {
  if (drawn.size() < 2) return {};
  std::string out;
  double x = left;
  for (size_t i = 0; i < drawn.size(); ++i) {
    const std::string name = drawn[i].name + (drawn[i].segments.empty() ? " (no data)" : "");
    const double width = 22 + svg_text_width(name) + 14;
    if (x > left && x + width > right + 14) {
      x = left;
      top += 16;
    }
    out += svg_line(x, top + 7, x + 16, top + 7, svg_stroke(i)) +
           svg_text(x + 22, top + 11, "start", name);
    x += width;
  }
  top += 20;
  return out;
}

std::string grid_lines(const Frame& frame) {
  const std::string_view style = R"(class="chart-grid" stroke="#e4e4e4" stroke-width="1")";
  const std::string_view base = R"(class="chart-axis" stroke="#999" stroke-width="1")";
  std::string out;
  for (size_t i = 0; i < frame.y.ticks.size(); ++i) {
    const double y = frame.at_y(frame.y.ticks[i]);
    out += svg_line(frame.left, y, frame.right, y, style);
    out += svg_text(frame.left - 6, y + 4, "end", frame.y.labels[i]);
  }
  for (size_t i = 0; i < frame.x.ticks.size(); ++i) {
    const double x = frame.at_x(frame.x.ticks[i]);
    out += svg_line(x, frame.bottom, x, frame.bottom + 4, base);
    out += svg_text(x, frame.bottom + 16, "middle", frame.x.labels[i]);
  }
  return out + svg_line(frame.left, frame.bottom, frame.right, frame.bottom, base);
}

std::string data_lines(const std::vector<Drawn>& drawn, const Frame& frame) {
  std::string out;
  for (size_t i = 0; i < drawn.size(); ++i)
    for (const auto& segment : drawn[i].segments) {
      if (segment.size() == 1) {
        out += svg_dot(frame.at_x(segment[0].x), frame.at_y(segment[0].y), i);
        continue;
      }
      out += fmt::format("<polyline {} points=\"", svg_stroke(i));
      for (const Point& p : segment)
        fmt::format_to(std::back_inserter(out), "{:.1f},{:.1f} ", frame.at_x(p.x), frame.at_y(p.y));
      out += fmt::format("\"><title>{}</title></polyline>", escape_html(drawn[i].name));
    }
  return out;
}

/// Dashed lines from top to bottom. Of those at one place only the first has its name.
std::string mark_lines(const Chart& chart, const Frame& frame) {
  std::string out;
  double free = -1;
  for (const auto& [at, name] : chart.marks) {
    const double x = frame.at_x(at);
    if (!(x >= frame.left && x <= frame.right)) continue;
    out += svg_line(x, frame.top, x, frame.bottom,
                    R"(class="chart-axis" stroke="#999" stroke-width="1" stroke-dasharray="4 4")");
    if (x < free) continue;
    out += svg_text(x + 4, frame.top + 9, "start", name);
    free = x + 8 + svg_text_width(name);
  }
  return out;
}

std::string axis_names(const Chart& chart, const Frame& frame, int height) {
  std::string out;
  if (!chart.x_label.empty())
    out += svg_text((frame.left + frame.right) / 2, height - 6, "middle", chart.x_label);
  if (!chart.y_label.empty()) {
    const double y = (frame.top + frame.bottom) / 2;
    out += svg_text(
        12, y, "middle", chart.y_label,
        fmt::format(R"x(class="chart-text" fill="#555" transform="rotate(-90 12 {:.1f})")x", y));
  }
  return out;
}

}  // namespace

std::string to_svg(const Chart& chart, int width, int height) {
  std::string out = fmt::format(
      R"(<svg xmlns="http://www.w3.org/2000/svg" class="chart" width="{0}" height="{1}" )"
      R"(viewBox="0 0 {0} {1}" role="img" aria-label="{2}" )"
      R"(font-family="system-ui, -apple-system, 'Segoe UI', sans-serif" font-size="11">)",
      width, height, escape_html(chart.title));
  const std::vector<Drawn> drawn = drawn_series(chart);
  Frame frame{0, width - 14.0, 30, height - (chart.x_label.empty() ? 22.0 : 38.0), {}, {}};
  out += svg_text(4, 17, "start", chart.title,
                  R"(class="chart-title" font-size="13" font-weight="600" fill="#222")");
  if (fit_axes(chart, drawn, height, frame)) {
    double widest = 0;
    for (const std::string& label : frame.y.labels)
      widest = std::max(widest, svg_text_width(label));
    frame.left = std::min(widest + (chart.y_label.empty() ? 12 : 28), width / 2.0);
    out += legend(drawn, frame.left, frame.right, frame.top);
    frame.top += 4;
    out += grid_lines(frame) + mark_lines(chart, frame) + data_lines(drawn, frame) +
           axis_names(chart, frame, height);
  } else {
    out += svg_text(width / 2.0, height / 2.0, "middle", "no data");
  }
  return out + "</svg>";
}

}  // namespace nsvq
