#include "nsvq/train/vq/phase_schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/error_of.h"

namespace nsvq {
namespace {

constexpr int64_t kBatches = 10;  // an epoch of the images

ScheduleConfig frozen_after(int64_t epoch) {
  ScheduleConfig schedule;
  schedule.freeze = "epoch";
  schedule.freeze_epoch = epoch;
  schedule.warmup_epochs = 2;
  schedule.ramp_epochs = 1;
  return schedule;
}

PhaseSchedule schedule_of(const ScheduleConfig& config, const AdversarialConfig& adversarial = {}) {
  return {config, adversarial, kBatches};
}

/// "phase: reason", "" while the phase lasts. Enters the phase, `kBatches` steps an epoch.
std::string after_epoch(PhaseSchedule& schedule, double commitment, int64_t epoch,
                        bool more_to_come = true) {
  const auto transition = schedule.end_epoch(commitment, more_to_come);
  if (!transition) return "";
  schedule.enter(*transition, epoch * kBatches);
  return schedule.phase().name + ": " + transition->reason;
}

TEST(PhaseSchedule, GoesThroughThePapersPhases) {
  auto schedule = schedule_of(frozen_after(3));
  EXPECT_EQ(schedule.phase().name, "stage1");
  std::vector<std::string> seen;
  for (int64_t epoch = 1; epoch <= 8; ++epoch) seen.push_back(after_epoch(schedule, 1, epoch));
  EXPECT_EQ(seen, (std::vector<std::string>{
                      "", "", "warmup: encoder frozen: schedule.freeze_epoch is 3", "",
                      "stage2: the warm-up has had its epochs (2)", "", "", ""}));
}

TEST(PhaseSchedule, TheEncoderFreezesBeforeOneStep) {
  auto schedule = schedule_of(frozen_after(3));
  EXPECT_FALSE(schedule.freezes_before(0));
  for (int64_t epoch = 1; epoch <= 8; ++epoch) {
    after_epoch(schedule, 1, epoch);
    EXPECT_EQ(schedule.freezes_before(epoch * kBatches), epoch == 3) << epoch;
    EXPECT_FALSE(schedule.freezes_before(epoch * kBatches + 1)) << epoch;
  }
  auto config = frozen_after(1);
  config.phases = {"warmup", "stage1"};
  EXPECT_FALSE(schedule_of(config).freezes_before(0)) << "it has not trained";
  EXPECT_FALSE(schedule_of(config).freezes_before(0, /*trained_elsewhere=*/true))
      << "it will train";
  config.phases = {"warmup", "stage2"};
  EXPECT_FALSE(schedule_of(config).freezes_before(0));
  EXPECT_TRUE(schedule_of(config).freezes_before(0, /*trained_elsewhere=*/true));
  EXPECT_FALSE(schedule_of(config).freezes_before(1, /*trained_elsewhere=*/true));
}

TEST(PhaseSchedule, TheDecodersPhaseLastsToTheEndOfAModelsRun) {
  ScheduleConfig config;
  config.phases = {"decoder"};
  check_schedule(config, /*from_model=*/true);
  EXPECT_EQ(error_of([&] { check_schedule(config); }),
            "schedule.phases is [decoder], which trains no encoder and no codes; name the model "
            "that has them in train.init_from");
  auto schedule = schedule_of(config);
  for (int64_t epoch = 1; epoch < 5; ++epoch) EXPECT_EQ(after_epoch(schedule, 1, epoch), "");
  config.phases = {"stage1", "decoder"};
  check_schedule(config);
  config.phases = {"decoder", "stage2"};
  EXPECT_EQ(error_of([&] { check_schedule(config, true); }),
            "schedule.phases: decoder lasts to the end of the run, so stage2 is not reached; name "
            "decoder last");
}

TEST(PhaseSchedule, RefitsNeedAnEncoderThatFreezes) {
  auto config = frozen_after(3);
  config.refit = "kmeans";
  check_schedule(config);
  config.phases = {"warmup", "stage1"};
  EXPECT_EQ(error_of([&] { check_schedule(config); }),
            "schedule.refit is kmeans, but no encoder freezes: in schedule.phases nothing follows "
            "stage1");
  config.phases = {"stage2"};
  EXPECT_EQ(error_of([&] { check_schedule(config); }),
            "schedule.refit is kmeans, but no encoder freezes: in schedule.phases there is no "
            "stage1");
  check_schedule(config, /*from_model=*/true);
  config.phases = {"stage1", "stage2"};
  config.freeze = "never";
  EXPECT_EQ(error_of([&] { check_schedule(config); }),
            "schedule.refit is kmeans, but no encoder freezes: schedule.freeze is never");
}

TEST(PhaseSchedule, FreezesAtThePlateauOfTheCommitmentLoss) {
  auto config = frozen_after(0);
  config.freeze = "plateau";
  config.patience = 2;
  auto schedule = schedule_of(config);
  std::vector<bool> left;
  for (const double commitment : {3.0, 2.0, 4.0, double{NAN}}) {
    left.push_back(schedule.end_epoch(commitment, true).has_value());
  }
  EXPECT_EQ(left, (std::vector<bool>{false, false, false, true}));
}

TEST(PhaseSchedule, EveryPhaseHasAnEpoch) {
  auto config = frozen_after(0);
  config.warmup_epochs = 0;
  auto schedule = schedule_of(config);
  EXPECT_EQ(schedule.next().name, "stage1") << "before the first epoch";
  EXPECT_EQ(after_epoch(schedule, 1, 1).substr(0, 6), "warmup");
  EXPECT_EQ(schedule.next().name, "warmup");
  EXPECT_EQ(after_epoch(schedule, 1, 2).substr(0, 6), "stage2");
}

TEST(PhaseSchedule, WhatIsDueAtTheEndOfTheBudgetBeginsWhenTheRunIsExtended) {
  auto schedule = schedule_of(frozen_after(1));
  EXPECT_EQ(after_epoch(schedule, 1, 1, /*more_to_come=*/false), "");
  EXPECT_EQ(schedule.phase().name, "stage1");
  EXPECT_EQ(schedule.next().name, "warmup") << "so that what it leaves alone is left alone";
  RunState state;
  state.step = kBatches;
  state.batch = 3;
  EXPECT_FALSE(schedule.resume(state)) << "within an epoch";
  state.batch = 0;
  ASSERT_TRUE(schedule.resume(state));
  schedule.enter(*schedule.resume(state), state.step);
  EXPECT_EQ(schedule.phase().name, "warmup");
  EXPECT_FALSE(schedule.resume(state));
}

TEST(PhaseSchedule, EpochsCountedInStepsEndWithThem) {
  auto config = frozen_after(1);
  config.epoch_steps = 4;
  auto schedule = schedule_of(config);
  EXPECT_EQ(schedule.steps_per_epoch(), 4);
  schedule.end_epoch(1, /*more_to_come=*/false);
  RunState state;
  state.batch = 3;  // whatever the epoch of the images
  for (const auto& [step, between] : {std::pair{8, true}, {9, false}}) {
    state.step = step;
    EXPECT_EQ(schedule.resume(state).has_value(), between) << step;
  }
}

TEST(PhaseSchedule, TheAdversarialShareRampsUpInStage2) {
  const AdversarialConfig adversarial{.weight = 0.1, .start_step = 3};
  auto schedule = schedule_of(frozen_after(1), adversarial);
  EXPECT_EQ(schedule.adversarial_share(2), 0);
  EXPECT_EQ(schedule.adversarial_share(3), 1);
  EXPECT_EQ(schedule.step_kind(2), "stage1 false");
  EXPECT_EQ(schedule.step_kind(3), "stage1 true");
  after_epoch(schedule, 1, 1);
  EXPECT_EQ(schedule.adversarial_share(15), 0) << "not in the warm-up";
  for (const int64_t epoch : {2, 3}) after_epoch(schedule, 1, epoch);
  ASSERT_EQ(schedule.phase().name, "stage2");
  EXPECT_DOUBLE_EQ(schedule.adversarial_share(30), 0.1);
  EXPECT_DOUBLE_EQ(schedule.adversarial_share(34), 0.5);
  EXPECT_EQ(schedule.adversarial_share(39), 1);
  EXPECT_EQ(schedule.adversarial_share(100), 1);
  EXPECT_EQ(schedule_of(frozen_after(1)).adversarial_share(5), 0) << "no adversarial loss";
}

TEST(PhaseSchedule, SaysWhatThePlateauGoesByWhereTheEpochsLineDoesNot) {
  ScheduleConfig config;
  auto plain = schedule_of(config);
  plain.end_epoch(2, true);
  EXPECT_FALSE(plain.unlogged_commitment());
  config.smoothing = 0.5;
  auto smooth = schedule_of(config);
  smooth.end_epoch(2, true);
  smooth.end_epoch(1, true);
  EXPECT_EQ(smooth.unlogged_commitment(), 1.5);
  smooth.enter({1, "the encoder is frozen"}, 20);
  EXPECT_FALSE(smooth.unlogged_commitment());
}

TEST(PhaseSchedule, ComesBackFromItsState) {
  const AdversarialConfig adversarial{.weight = 0.1};
  auto schedule = schedule_of(frozen_after(1), adversarial);
  for (const int64_t epoch : {1, 2, 3}) after_epoch(schedule, epoch == 2 ? NAN : 0.1, epoch);
  const auto text = schedule.to_json().dump();
  EXPECT_EQ(text,
            "{\"commitment\":[0.1,null,0.1],\"phase\":2,\"phase_start\":3,"
            "\"phase_start_step\":30}");
  auto other = schedule_of(frozen_after(1), adversarial);
  other.from_json(nlohmann::json::parse(text));
  EXPECT_EQ(other.to_json().dump(), text);
  EXPECT_EQ(other.phase().name, "stage2");
  EXPECT_EQ(other.adversarial_share(34), schedule.adversarial_share(34));
}

TEST(PhaseSchedule, RefusesAPhaseThatTheRecipeDoesNotHave) {
  auto schedule = schedule_of(frozen_after(1));
  auto state = schedule.to_json();
  state["phase"] = 3;
  EXPECT_NE(error_of([&] { schedule.from_json(state); }).find("task.phase"), std::string::npos);
  state.erase("phase");
  EXPECT_THROW(schedule.from_json(state), nlohmann::json::exception);
}

}  // namespace
}  // namespace nsvq
