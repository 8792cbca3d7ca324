#include "nsvq/report/histogram.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "markup.h"

namespace nsvq {
namespace {

using test::count;

TEST(Histogram, OneBarADecadeWithZerosAndNonFiniteAtTheEnds) {
  const double inf = std::numeric_limits<double>::infinity();
  const std::string svg =
      decade_histogram("errors < 1", {0, 0, 2e-7, 9e-7, 1e-5, std::nan(""), inf, 0});
  EXPECT_EQ(test::markup_error(svg), "") << svg;
  EXPECT_EQ(count(svg, "errors &lt; 1"), 2);  // text and label
  EXPECT_EQ(count(svg, "<rect"), 4) << "1e-6 to 1e-5 is empty";
  EXPECT_EQ(count(svg, "exactly 0: 3<"), 1);
  EXPECT_EQ(count(svg, "1e-7 to 1e-6: 2<"), 1);
  EXPECT_EQ(count(svg, "1e-5 to 1e-4: 1<"), 1);
  EXPECT_EQ(count(svg, "not finite: 2<"), 1);
  EXPECT_EQ(count(svg, ">1e-6<"), 1);
}

TEST(Histogram, NothingAndTinyValues) {
  EXPECT_EQ(count(decade_histogram("none", {}), "no data"), 1);
  const std::string svg = decade_histogram("tiny", {5e-324, 1e300});
  EXPECT_EQ(test::markup_error(svg), "");
  EXPECT_EQ(count(svg, "1e-20 to 1e-19: 1<"), 1);
  EXPECT_EQ(count(svg, "1e300 to 1e301: 1<"), 1);
}

}  // namespace
}  // namespace nsvq
