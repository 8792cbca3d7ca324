#include "nsvq/train/steps/lr_schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "nsvq/train/vq/adversary.h"

namespace nsvq {
namespace {

TEST(LrSchedule, IsConstantUnlessToldOtherwise) {
  EXPECT_TRUE(is_constant({}));
  for (const int64_t step : {0, 5, 99, 1000}) EXPECT_EQ(lr_factor({}, step, 100), 1);
}

TEST(LrSchedule, RisesOverTheWarmUp) {
  const LrScheduleConfig schedule{.warmup_steps = 4};
  EXPECT_FALSE(is_constant(schedule));
  EXPECT_EQ(lr_factor(schedule, 0, 100), 0.25);
  EXPECT_EQ(lr_factor(schedule, 3, 100), 1);
  EXPECT_EQ(lr_factor(schedule, 4, 100), 1);
}

TEST(LrSchedule, SaysWhereItDoesNotFitTheRun) {
  const auto note = [](const LrScheduleConfig& schedule) {
    return note_on_schedule("optimizer.schedule", schedule, 100);
  };
  const auto has = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  has(note({.warmup_steps = 100}), "optimizer.schedule.warmup_steps is 100 of 100 steps");
  has(note({.shape = "cosine", .steps = 8}), "the rate is 0 from step 8 on");
  has(note({.shape = "linear", .steps = 101}), "the final rate is not reached");
  EXPECT_EQ(note({}), "");
  EXPECT_EQ(note({.steps = 8}), "") << "of no effect";
  EXPECT_EQ(note({.shape = "cosine", .steps = 100}), "");
  EXPECT_EQ(note({.shape = "cosine", .steps = 8, .final_share = 0.1}), "");
}

TEST(LrSchedule, FallsToItsFinalShare) {
  LrScheduleConfig schedule{.shape = "linear", .warmup_steps = 20, .final_share = 0.1};
  EXPECT_EQ(lr_factor(schedule, 20, 120), 1);
  EXPECT_NEAR(lr_factor(schedule, 70, 120), 0.55, 1e-12);
  EXPECT_NEAR(lr_factor(schedule, 120, 120), 0.1, 1e-12);
  EXPECT_NEAR(lr_factor(schedule, 500, 120), 0.1, 1e-12) << "a grown budget";
  schedule.shape = "cosine";
  EXPECT_NEAR(lr_factor(schedule, 70, 120), 0.55, 1e-12);
  EXPECT_GT(lr_factor(schedule, 40, 120), 0.9);
  EXPECT_NEAR(lr_factor(schedule, 120, 120), 0.1, 1e-12);
  schedule.steps = 60;
  EXPECT_NEAR(lr_factor(schedule, 60, 120), 0.1, 1e-12) << "before the end of the run";
}

TEST(LrSchedule, FallsOverItsLastShareAlone) {
  LrScheduleConfig schedule{.shape = "linear", .warmup_steps = 20, .fall_share = 0.25};
  EXPECT_EQ(lr_factor(schedule, 9, 200), 0.5);
  for (const int64_t step : {20, 100, 150}) EXPECT_EQ(lr_factor(schedule, step, 200), 1) << step;
  EXPECT_NEAR(lr_factor(schedule, 175, 200), 0.5, 1e-12);
  schedule.shape = "cosine";
  EXPECT_EQ(lr_factor(schedule, 150, 200), 1);
  EXPECT_NEAR(lr_factor(schedule, 160, 200), 0.5 * (1 + std::cos(std::numbers::pi * 0.2)), 1e-12);
  EXPECT_NEAR(lr_factor(schedule, 200, 200), 0, 1e-12);
  schedule.fall_share = 0.95;  // the warm-up is longer than the rest
  EXPECT_EQ(lr_factor(schedule, 20, 200), 1);
  EXPECT_LT(lr_factor(schedule, 21, 200), 1);
}

TEST(LrSchedule, ARunShorterThanItsWarmUpOnlyRises) {
  const LrScheduleConfig schedule{.shape = "cosine", .warmup_steps = 10};
  EXPECT_NEAR(lr_factor(schedule, 4, 5), 0.5, 1e-12);
}

TEST(LrSchedule, OfTheDiscriminatorCountsFromItsFirstStep) {
  TokenizerConfig config;
  config.adversarial.start_step = 50;
  config.optimizer.schedule = {.shape = "linear"};
  EXPECT_EQ(discriminator_lr_factor(config, 75, 100), 0.25) << "the generator's";
  config.optimizer.discriminator_schedule = {.shape = "linear"};
  EXPECT_EQ(discriminator_lr_factor(config, 50, 100), 1);
  EXPECT_EQ(discriminator_lr_factor(config, 75, 100), 0.5);
}

}  // namespace
}  // namespace nsvq
