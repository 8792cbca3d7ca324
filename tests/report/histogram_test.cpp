#include "nsvq/report/histogram.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace nsvq {
namespace {

TEST(Histogram, OneBarADecadeWithZerosAndNonFiniteAtTheEnds) {
  const double inf = std::numeric_limits<double>::infinity();
  const auto bars = decade_bars({0, 0, 2e-7, 9e-7, 1e-5, std::nan(""), inf, 0});
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
