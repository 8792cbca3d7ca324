#include "nsvq/report/chart.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace nsvq {
namespace {

const double nan = std::numeric_limits<double>::quiet_NaN();
const double inf = std::numeric_limits<double>::infinity();

Series series_of(size_t points, double (*value)(size_t)) {
  Series series{"a", {}, {}};
  for (size_t i = 0; i < points; ++i) {
    series.x.push_back(static_cast<double>(i));
    series.y.push_back(value(i));
  }
  return series;
}

TEST(Thin, KeepsPeaks) {
  const auto series = series_of(100'000, [](size_t i) {
    return i == 77777 ? 10 : i == 33333 ? -10 : std::sin(static_cast<double>(i) * 1e-3);
  });
  const auto points = thin(series, 500).points;
  EXPECT_LE(points.size(), 502u);
  EXPECT_GE(points.size(), 250u);
  const auto [least, greatest] =
      std::ranges::minmax_element(points, {}, [](const auto& point) { return point.second; });
  EXPECT_EQ(least->second, -10);
  EXPECT_EQ(greatest->second, 10);
  EXPECT_TRUE(std::ranges::is_sorted(points, {}, [](const auto& point) { return point.first; }));
}

TEST(Thin, KeepsEndsAndGaps) {
  const auto series = series_of(10'001, [](size_t i) { return i == 5000 ? nan : 1.0; });
  const auto points = thin(series, 500).points;
  EXPECT_LE(points.size(), 503u);
  EXPECT_EQ(points.front().first, 0);
  EXPECT_EQ(points.back().first, 10'000);
  EXPECT_EQ(std::ranges::count_if(points, [](const auto& one) { return std::isnan(one.second); }),
            1);
}

TEST(Thin, LeavesFewPointsAsTheyAre) {
  const auto thinned = thin(series_of(500, [](size_t) { return 1.0; }), 500);
  EXPECT_EQ(thinned.points.size(), 500u);
  EXPECT_TRUE(thinned.means.empty());
}

TEST(Thin, PointsHaveTheMeansOfTheirIntervals) {
  const auto series = series_of(6000, [](size_t i) {
    return i == 3000 ? nan : i % 3 == 0 ? 1.0 : 0.0;
  });
  const auto thinned = thin(series, 200);
  ASSERT_EQ(thinned.means.size(), thinned.points.size());
  for (size_t i = 0; i < thinned.means.size(); ++i) {
    if (std::isnan(thinned.points[i].second))
      EXPECT_TRUE(std::isnan(thinned.means[i]));
    else
      EXPECT_NEAR(thinned.means[i], 1.0 / 3, 0.02) << i;
  }
}

TEST(LineData, HasSixDigitsAndNullWhereNothingIsFinite) {
  const auto line = line_data({"a", {1, 2, 3}, {1.23456789, inf, nan}}, 10);
  EXPECT_EQ(line.dump(), R"({"name":"a","x":[1,2,3],"y":[1.23457,null,null]})");
}

TEST(Histogram, OneBarADecadeWithZerosAndNonFiniteAtTheEnds) {
  const auto bars = decade_bars({0, 0, 2e-7, 9e-7, 1e-5, nan, inf, 0});
  ASSERT_EQ(bars.size(), 5u);
  EXPECT_EQ(bars[0].range, "exactly 0");
  EXPECT_EQ(bars[0].count, 3);
  EXPECT_EQ(bars[1].range, "1e-7 to 1e-6");
  EXPECT_EQ(bars[1].label, "1e-7");
  EXPECT_EQ(bars[1].count, 2);
  EXPECT_EQ(bars[2].count, 0) << "1e-6 to 1e-5 is empty";
  EXPECT_EQ(bars[3].count, 1);
  EXPECT_EQ(bars[4].range, "not finite");
  EXPECT_EQ(bars[4].count, 2);
}

TEST(Histogram, NothingTinyAndNegativeValues) {
  EXPECT_TRUE(decade_bars({}).empty());
  const auto bars = decade_bars({5e-324, 1e300});
  EXPECT_EQ(bars.front().range, "1e-20 to 1e-19");
  EXPECT_EQ(bars.back().range, "1e300 to 1e301");
  EXPECT_EQ(decade_bars({-3e-7}).front().label, "1e-7") << "by its size";
}

}  // namespace
}  // namespace nsvq
