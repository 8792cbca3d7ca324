#include "nsvq/report/chart.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <sstream>

#include "markup.h"
#include "nsvq/report/line.h"

namespace nsvq {
namespace {

using test::count;

const double nan = std::numeric_limits<double>::quiet_NaN();
const double inf = std::numeric_limits<double>::infinity();

Chart chart_of(std::vector<double> x, std::vector<double> y, bool log_y = false) {
  Chart chart;
  chart.title = "title";
  chart.series = {{"a", std::move(x), std::move(y)}};
  chart.log_y = log_y;
  return chart;
}

/// Draws, and checks what holds for every chart.
std::string draw(const Chart& chart) {
  const std::string svg = to_svg(chart);
  EXPECT_EQ(test::markup_error(svg), "") << svg;
  EXPECT_EQ(svg.find("nan"), svg.npos);
  EXPECT_EQ(svg.find("inf"), svg.npos);
  return svg;
}

/// The points of every polyline; all must lie on the paper.
std::vector<std::vector<Point>> lines_of(const std::string& svg) {
  std::vector<std::vector<Point>> lines;
  for (size_t at = svg.find("points=\""); at != svg.npos; at = svg.find("points=\"", at + 1)) {
    std::istringstream in(svg.substr(at + 8, svg.find('"', at + 8) - at - 8));
    lines.emplace_back();
    char comma;
    for (Point p; in >> p.x >> comma >> p.y;) {
      EXPECT_TRUE(p.x >= 0 && p.x <= 520 && p.y >= 0 && p.y <= 280) << p.x << ' ' << p.y;
      lines.back().push_back(p);
    }
  }
  return lines;
}

TEST(Chart, ALineGoesUpWhereValuesDo) {
  const auto lines = lines_of(draw(chart_of({0, 1, 2}, {0, 1, 0.5})));
  ASSERT_EQ(lines.size(), 1u);
  ASSERT_EQ(lines[0].size(), 3u);
  EXPECT_LT(lines[0][0].x, lines[0][1].x);
  EXPECT_NEAR(lines[0][1].x - lines[0][0].x, lines[0][2].x - lines[0][1].x, 0.11);
  EXPECT_NEAR(lines[0][0].y - lines[0][2].y, (lines[0][0].y - lines[0][1].y) / 2, 0.11);
  EXPECT_GT(lines[0][0].y, lines[0][1].y);
}

TEST(Chart, NothingToDraw) {
  EXPECT_EQ(count(draw(Chart{}), "no data"), 1);
  EXPECT_EQ(count(draw(chart_of({}, {})), "no data"), 1);
  EXPECT_EQ(count(draw(chart_of({1, 2}, {nan, inf})), "no data"), 1);
  EXPECT_EQ(count(draw(chart_of({1, 2}, {0, -1}, true)), "no data"), 1);
  EXPECT_EQ(count(draw(chart_of({1, 2}, {})), "no data"), 1);
}

TEST(Chart, AnEmptySeriesIsNamedBesideAFullOne) {
  Chart chart = chart_of({1, 2}, {3, 4});
  chart.series.push_back({"b", {}, {}});
  const std::string svg = draw(chart);
  EXPECT_EQ(count(svg, ">b (no data)<"), 1);
  EXPECT_EQ(lines_of(svg).size(), 1u);
}

TEST(Chart, WhatIsNotFiniteBreaksTheLine) {
  for (const double gap : {nan, inf, -inf, 1e305}) {
    const std::string svg = draw(chart_of({0, 1, 2, 3, 4, 5}, {1, 2, gap, 3, gap, 4}));
    EXPECT_EQ(lines_of(svg).size(), 1u);
    EXPECT_EQ(count(svg, "<circle"), 2);
  }
  EXPECT_EQ(lines_of(draw(chart_of({0, 1, nan, 3, 4}, {1, 2, 3, 4, 5}))).size(), 2u);
}

TEST(Chart, OnePointIsADot) {
  for (const bool log_y : {false, true}) {
    const std::string svg = draw(chart_of({32}, {0.5}, log_y));
    EXPECT_EQ(count(svg, "<circle"), 1);
    EXPECT_EQ(lines_of(svg).size(), 0u);
  }
  EXPECT_EQ(count(draw(chart_of({0}, {0})), "<circle"), 1);
}

TEST(Chart, ConstantAndHugeValues) {
  for (const double value : {0.0, 1.0, -5.0, 1e-300, 1e15, 1e300, -1e300}) {
    const auto lines = lines_of(draw(chart_of({0, 1, 2}, {value, value, value})));
    ASSERT_EQ(lines.size(), 1u) << value;
    EXPECT_EQ(lines[0][0].y, lines[0][2].y);
  }
  EXPECT_EQ(lines_of(draw(chart_of({-1e300, 1e300}, {-1e300, 1e300}))).size(), 1u);
  EXPECT_EQ(lines_of(draw(chart_of({0, 1}, {1e-300, 1e300}, true))).size(), 1u);
}

TEST(Chart, LogScaleSkipsZeros) {
  const std::string svg = draw(chart_of({0, 1, 2, 3, 4}, {0.01, 0.1, 0, 1, 10}, true));
  const auto lines = lines_of(svg);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_NEAR(lines[0][0].y - lines[0][1].y, lines[1][0].y - lines[1][1].y, 0.21);
}

TEST(Chart, TextIsEscaped) {
  Chart chart = chart_of({1, 2}, {3, 4});
  const std::string evil = "</svg><script>alert('x')</script>&\"";
  chart.title = chart.x_label = chart.y_label = chart.series[0].name = evil;
  chart.series.push_back(chart.series[0]);
  EXPECT_EQ(count(draw(chart), "<script"), 0);
}

TEST(Chart, ManySeries) {
  Chart chart;
  for (int i = 0; i < 33; ++i)
    chart.series.push_back({"series " + std::to_string(i), {0, 1}, {0.0, 1.0 * i}});
  const std::string svg = draw(chart);
  EXPECT_EQ(count(svg, "<polyline"), 33);
  EXPECT_GT(count(svg, "stroke-dasharray"), 0);
}

TEST(Chart, LongSeriesAreThinnedAndKeepTheirSpikes) {
  Chart chart = chart_of({}, {});
  for (int i = 0; i < 100000; ++i) {
    chart.series[0].x.push_back(i);
    chart.series[0].y.push_back(i == 77777 ? 10 : i == 33333 ? -10 : std::sin(i * 1e-3));
  }
  const auto lines = lines_of(draw(chart));
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_LE(lines[0].size(), 502u);
  EXPECT_GE(lines[0].size(), 250u);
  double top = 280, bottom = 0;
  for (const Point& p : lines[0]) {
    top = std::min(top, p.y);
    bottom = std::max(bottom, p.y);
  }
  EXPECT_LT(top + 80, lines[0].front().y);
  EXPECT_GT(bottom - 80, lines[0].front().y);
}

TEST(Chart, ThinningKeepsEndsAndGaps) {
  const auto drawable = [](Point p) { return std::isfinite(p.y); };
  std::vector<Point> points(10001);
  for (size_t i = 0; i < points.size(); ++i) points[i] = {1.0 * i, i == 5000 ? nan : 1.0};
  const auto kept = thin(points, 500, drawable).points;
  EXPECT_LE(kept.size(), 503u);
  EXPECT_EQ(kept.front().x, 0);
  EXPECT_EQ(kept.back().x, 10000);
  EXPECT_EQ(split_segments(kept, drawable).size(), 2u);
  const std::vector<Point> few(points.begin(), points.begin() + 500);
  EXPECT_EQ(thin(few, 500, drawable).points.size(), 500u);
  EXPECT_TRUE(thin(few, 500, drawable).means.empty());
}

TEST(Chart, ThinnedPointsHaveTheMeansOfTheirStretches) {
  const auto drawable = [](Point p) { return std::isfinite(p.y); };
  std::vector<Point> points(6000);
  for (size_t i = 0; i < points.size(); ++i) points[i] = {1.0 * i, i % 3 == 0 ? 1.0 : 0.0};
  points[3000].y = nan;
  const auto kept = thin(points, 200, drawable);
  ASSERT_EQ(kept.means.size(), kept.points.size());
  for (size_t i = 0; i < kept.means.size(); ++i) {
    if (drawable(kept.points[i]))
      EXPECT_NEAR(kept.means[i], 1.0 / 3, 0.02) << i;
    else
      EXPECT_TRUE(std::isnan(kept.means[i]));
  }
}

}  // namespace
}  // namespace nsvq
