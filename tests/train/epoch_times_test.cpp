#include "nsvq/train/epoch_times.h"

#include <gtest/gtest.h>

namespace nsvq {
namespace {

TEST(EpochTimes, AdviseOnceWhatToMakeRarer) {
  EpochTimes times;
  times.steps = 12;
  times.checkpoints = 19;
  EXPECT_EQ(times.advice(), "");  // too little to notice
  times.evaluation = 2;
  times.samples = 3.4;
  EXPECT_EQ(times.advice(),
            "so far 12 s went to steps, and after epochs 19 s to checkpoints, 2 s to evaluations "
            "and 3 s to samples and the report; checkpoint.every_steps, train.eval_every and "
            "train.samples_every make them rarer");
  times.checkpoints = 100;
  EXPECT_EQ(times.advice(), "");
}

TEST(EpochTimes, SayNothingWhereStepsTakeMost) {
  EpochTimes times;
  times.steps = 100;
  times.checkpoints = 99;
  EXPECT_EQ(times.advice(), "");
}

TEST(EpochTimes, AGuardAddsItsTime) {
  double seconds = 1;
  { const TimeGuard timed(seconds); }
  EXPECT_GE(seconds, 1);
}

}  // namespace
}  // namespace nsvq
