#include "nsvq/core/slow_work.h"

#include <gtest/gtest.h>

#include <string>

namespace nsvq {
namespace {

using std::chrono::milliseconds;

TEST(SlowWork, TellsALogFileNowAndThen) {
  std::chrono::steady_clock::time_point time;
  testing::internal::CaptureStderr();
  {
    SlowWork slow([&] { return time; });
    int asked = 0;
    for (int second = 0; second <= 75; ++second, time += milliseconds(1000)) {
      slow.tell([&] { return ++asked, "listed " + std::to_string(second); });
    }
    EXPECT_EQ(asked, 3) << "texts that are not shown are not made";
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "listed 10\nlisted 40\nlisted 70\n");
}

TEST(SlowWork, SaysNothingOfWorkThatIsFast) {
  testing::internal::CaptureStderr();
  SlowWork().tell([] { return "listed"; });
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace nsvq
