#include "nsvq/report/axis.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace nsvq {
namespace {

using Labels = std::vector<std::string>;

TEST(Axis, RoundTicks) {
  EXPECT_EQ(round_axis(0.07, 0.93, 5).labels, (Labels{"0", "0.2", "0.4", "0.6", "0.8", "1.0"}));
  EXPECT_EQ(round_axis(14.2, 25.1, 5).labels, (Labels{"10", "15", "20", "25", "30"}));
  EXPECT_EQ(round_axis(-3, 4, 4).labels, (Labels{"-4", "-2", "0", "2", "4"}));
  EXPECT_EQ(round_axis(0, 80000, 4).labels, (Labels{"0", "20k", "40k", "60k", "80k"}));
  EXPECT_EQ(round_axis(0, 2e-5, 4).labels, (Labels{"0", "5.0e-6", "1.0e-5", "1.5e-5", "2.0e-5"}));
  EXPECT_EQ(tight_axis(20, 640, 6).labels, (Labels{"200", "400", "600"}));
}

TEST(Axis, LogTicks) {
  EXPECT_EQ(log_axis(0.012, 0.3, 5).labels, (Labels{"0.01", "0.02", "0.05", "0.1", "0.2", "0.5"}));
  EXPECT_EQ(log_axis(1e-4, 1e4, 5).labels, (Labels{"1e-4", "0.01", "1", "100", "10000"}));
  EXPECT_EQ(log_axis(1, 1, 5).labels, (Labels{"0.5", "1", "2"}));
  const Axis axis = log_axis(0.1, 10, 5);
  EXPECT_NEAR(axis.position(0.1), 0, 1e-12);
  EXPECT_NEAR(axis.position(1), 0.5, 1e-12);
  EXPECT_NEAR(axis.position(10), 1, 1e-12);
}

void expect_sound(const Axis& axis, double min, double max) {
  ASSERT_LT(axis.low, axis.high);
  ASSERT_EQ(axis.ticks.size(), axis.labels.size());
  EXPECT_GE(axis.ticks.size(), 1u) << min << ' ' << max;
  EXPECT_LE(axis.ticks.size(), 14u) << min << ' ' << max;
  EXPECT_EQ(std::set<std::string>(axis.labels.begin(), axis.labels.end()).size(),
            axis.labels.size());
  for (const double value : {min, max}) {
    EXPECT_GE(axis.position(value), -1e-6);
    EXPECT_LE(axis.position(value), 1 + 1e-6);
  }
}

TEST(Axis, AnyRangeGetsAFewDistinctTicks) {
  const double values[] = {-1e300, -12345.678, -1, -1e-9, 0,   1e-300,  1e-12, 0.1,
                           0.3,    1,          7,  999.5, 1e6, 1000001, 1e300};
  for (const double min : values)
    for (const double max : values) {
      if (min > max) continue;
      for (const int ticks : {2, 5, 6}) {
        expect_sound(round_axis(min, max, ticks), min, max);
        expect_sound(tight_axis(min, max, ticks), min, max);
        if (min > 0) expect_sound(log_axis(min, max, ticks), min, max);
      }
    }
}

}  // namespace
}  // namespace nsvq
