#include "nsvq/train/vq/phase.h"

#include <gtest/gtest.h>

#include <cmath>

#include "nsvq/core/error.h"

namespace nsvq {
namespace {

TEST(Plateau, NeedsMoreEpochsThanThePatience) {
  EXPECT_FALSE(on_plateau({}, 3));
  EXPECT_FALSE(on_plateau({1, 1, 1}, 3));
  EXPECT_TRUE(on_plateau({1, 1, 1, 1}, 3));  // A tie is no decrease.
}

TEST(Plateau, ANewMinimumWithinThePatiencePutsItOff) {
  EXPECT_FALSE(on_plateau({3, 2, 1, 2, 2}, 3));
  EXPECT_TRUE(on_plateau({3, 2, 1, 2, 2, 1}, 3));
  EXPECT_FALSE(on_plateau({3, 2, 1, 2, 2, 0.99}, 3));
  EXPECT_TRUE(on_plateau({1, 5, 4, 3}, 3));  // Falling again, but not below the least so far.
}

TEST(Plateau, NaNIsNoDecrease) {
  EXPECT_TRUE(on_plateau({1, NAN, NAN, NAN}, 3));
  EXPECT_FALSE(on_plateau({NAN, 1, 1, 1}, 3));
  EXPECT_TRUE(on_plateau({NAN, NAN, NAN, NAN}, 3));
}

TEST(Freeze, EachRuleGivesItsReason) {
  ScheduleConfig schedule;
  schedule.patience = 2;
  EXPECT_EQ(freeze_reason(schedule, {3, 2, 1}), std::nullopt);
  EXPECT_EQ(freeze_reason(schedule, {1, 2, 3}),
            "commitment loss has not decreased for 2 epochs (lowest 2, before 1)");
  schedule.commitment = "validation";
  schedule.smoothing = 0.5;
  EXPECT_EQ(
      freeze_reason(schedule, {1, 2, 3}),
      "smoothed validation commitment loss has not decreased for 2 epochs (lowest 1.5, before 1)");
  schedule.latest_epoch = 3;
  EXPECT_EQ(freeze_reason(schedule, {3, 2, 1}), "schedule.latest_epoch is 3");
  schedule.freeze = "never";
  EXPECT_EQ(freeze_reason(schedule, {1, 2, 3}), std::nullopt);
  schedule.freeze = "epoch";
  schedule.freeze_epoch = 2;
  EXPECT_EQ(freeze_reason(schedule, {1}), std::nullopt);
  EXPECT_EQ(freeze_reason(schedule, {1, 2}), "schedule.freeze_epoch is 2");
}

TEST(Freeze, EarlyEpochsDoNotCount) {
  ScheduleConfig schedule;
  schedule.patience = 2;
  const std::vector<double> growing = {1, 5, 6, 5, 4, 3};  // latents grow at first
  EXPECT_NE(freeze_reason(schedule, growing), std::nullopt);
  schedule.earliest_epoch = 5;
  EXPECT_EQ(freeze_reason(schedule, growing), std::nullopt);
  EXPECT_EQ(freeze_reason(schedule, {1, 5, 6, 7}), std::nullopt) << "before the earliest epoch";
  EXPECT_NE(freeze_reason(schedule, {1, 5, 6, 7, 7}), std::nullopt) << "at the earliest epoch";
}

TEST(Freeze, OnASmoothedLoss) {
  ScheduleConfig schedule;
  schedule.patience = 3;
  const std::vector<double> noisy = {4, 1, 4, 3, 3};  // one low value among falling ones
  EXPECT_NE(freeze_reason(schedule, noisy), std::nullopt);
  schedule.smoothing = 0.9;
  EXPECT_EQ(freeze_reason(schedule, noisy), std::nullopt);
  const auto means = smoothed({NAN, 4, NAN, 2}, 0.5);
  EXPECT_TRUE(std::isnan(means[0]));
  EXPECT_EQ(means[1], 4);
  EXPECT_EQ(means[2], 4);
  EXPECT_EQ(means[3], 3);
}

TEST(Phases, AreThePapers) {
  const auto& first = phase_by_name("stage1");
  EXPECT_TRUE(first.train_encoder && first.commitment && first.extra_codebook_terms &&
              first.replacement);
  for (const auto* name : {"warmup", "stage2"}) {
    const auto& phase = phase_by_name(name);
    EXPECT_FALSE(phase.train_encoder || phase.commitment || phase.extra_codebook_terms ||
                 phase.replacement);
    EXPECT_EQ(phase.adversarial, phase.name == "stage2");
    EXPECT_TRUE(phase.train_quantizer);
  }
  const auto& decoder = phase_by_name("decoder");
  EXPECT_FALSE(decoder.train_encoder || decoder.train_quantizer || decoder.replacement);
  EXPECT_TRUE(decoder.adversarial && decoder.ramp);
  EXPECT_THROW(phase_by_name("stage3"), UserError);
}

}  // namespace
}  // namespace nsvq
