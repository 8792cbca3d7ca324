#include "nsvq/train/journal.h"

#include <gtest/gtest.h>

namespace nsvq {
namespace {

TEST(EpochTimes, AdviseOnceWhatToMakeRarer) {
  EpochTimes times;
  times.checkpoints = 19;
  EXPECT_EQ(times.advice(31), "");  // too little to notice
  times.evaluation = 2;
  times.samples = 3.4;
  EXPECT_EQ(times.advice(36.4),
            "so far 12 s went to steps, and after epochs 19 s to checkpoints, 2 s to evaluations "
            "and 3 s to samples and the report; checkpoint.every_steps, train.eval_every and "
            "train.samples_every make them rarer");
  times.checkpoints = 100;
  EXPECT_EQ(times.advice(120), "");
}

TEST(EpochTimes, SayNothingWhereStepsTakeMost) {
  EpochTimes times;
  times.checkpoints = 99;
  EXPECT_EQ(times.advice(199), "");
}

TEST(EpochTimes, AGuardAddsItsTime) {
  double seconds = 0;
  {
    const TimeGuard timed(seconds);
    const auto start = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() == start) {
    }
  }
  EXPECT_GT(seconds, 0);
}

}  // namespace
}  // namespace nsvq
