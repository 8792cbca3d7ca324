// A finished run that gets a larger budget is the run that had it from the start.

#include <gtest/gtest.h>

#include "nsvq/runs/layout/layout.h"
#include "tests/expect_contains.h"
#include "tests/train/run_traces.h"
#include "tests/train/tiny.h"
#include "tests/train/trainer_fixture.h"

namespace nsvq {
namespace {

namespace fs = std::filesystem;

/// Two epochs of three steps, at whose end stage 1 ends.
TokenizerConfig short_config() {
  auto config = tiny_config();
  config.quantizer.codes = 512;  // some are unused, so that replacement has something to do
  config.schedule.freeze_epoch = 2;
  config.schedule.ramp_epochs = 1;
  config.adversarial.weight = 0.1;
  config.adversarial.width = 4;
  config.adversarial.layers = 1;
  config.train.epochs = 2;
  return config;
}

/// With twice the budget.
TokenizerConfig twice_as_long(TokenizerConfig config) {
  (config.train.steps > 0 ? config.train.steps : config.train.epochs) *= 2;
  return config;
}

void extend(const TokenizerConfig& config, const fs::path& run) {
  Trainer(config, run, make_single_group(), Start::resume).loop().train();
}

std::vector<std::string> phases_in(const fs::path& run) {
  std::vector<std::string> phases;
  for (const auto& line : lines_of_kind(run, "phase")) {
    phases.push_back(fmt::format("{} after step {}: {}", line.at("phase").get<std::string>(),
                                 line.at("step").get<int>(), line.at("reason").get<std::string>()));
  }
  return phases;
}

/// Phases, and the tensors of the last checkpoint, bit for bit. Lines of the log may name another
/// phase: within steps the longer run is in the next one at once, the other when it goes on.
void expect_same_training(const fs::path& a, const fs::path& b) {
  EXPECT_EQ(phases_in(a), phases_in(b));
  for (const auto* name : {"model.safetensors", "training.safetensors"}) {
    EXPECT_EQ(first_difference(read_safetensors(list_checkpoints(a).back() / name).tensors,
                               read_safetensors(list_checkpoints(b).back() / name).tensors),
              "")
        << name;
  }
}

class ExtendTest : public TrainerTest {
 protected:
  /// The run of `config`, extended to twice its budget, and the run that has it from the start in
  /// `whole_`.
  void train_both(const TokenizerConfig& config) {
    const auto longer = twice_as_long(config);
    train(config, run_);
    EXPECT_EQ(lines_of_kind(run_, "phase").size(), 1u);
    extend(longer, run_);
    train(longer, whole_);
    EXPECT_EQ(lines_of_kind(whole_, "phase").size(), 3u);
  }

  fs::path whole_ = folder_.path() / "whole";
};

TEST_F(ExtendTest, APhaseThatWasDueAtTheEndBegins) {
  train_both(short_config());
  expect_same_runs(whole_, run_);
}

TEST_F(ExtendTest, APlateauThatWasReachedAtTheEndCounts) {
  auto config = short_config();
  config.schedule.freeze = "plateau";
  config.schedule.patience = 1;
  config.schedule.latest_epoch = 2;
  train_both(config);
  expect_same_runs(whole_, run_);
}

TEST_F(ExtendTest, OfPhasesThatAreCountedInSteps) {
  auto config = short_config();
  config.schedule.epoch_steps = 3;
  train_both(config);
  expect_same_training(whole_, run_);
}

TEST_F(ExtendTest, OfABudgetOfSteps) {
  auto config = short_config();
  config.schedule.epoch_steps = 2;
  config.schedule.freeze_epoch = 3;
  config.replacement.every_steps = 2;
  config.train.steps = 6;
  train_both(config);
  expect_same_training(whole_, run_);
}

TEST_F(ExtendTest, AfterACrashInItsFirstStep) {
  const auto longer = twice_as_long(short_config());
  train(short_config(), run_);
  struct Crash {};
  {
    Trainer trainer(longer, run_, make_single_group(), Start::resume);
    trainer.loop().on_step([](const RunState&) { throw Crash(); });
    EXPECT_THROW(trainer.loop().train(), Crash);
  }
  extend(longer, run_);
  train(longer, whole_);
  expect_same_runs(whole_, run_);
}

TEST_F(ExtendTest, AnEpochThatAnEarlierBudgetCutIsSaid) {
  const auto said_by = [&](int64_t steps, int64_t later) {
    auto config = tiny_config();
    config.train.steps = steps;
    const auto run = folder_.path() / fmt::format("{} steps", steps);
    train(config, run);
    config.train.steps = later;
    testing::internal::CaptureStderr();
    extend(config, run);
    return testing::internal::GetCapturedStderr();
  };
  const std::string cut = "an earlier budget (train.steps) ended within an epoch",
                    whole = "what a run of 7 steps from the start does (--new starts one)";
  expect_contains(said_by(4, 7), {"continues    after step 4, in epoch 3", cut, whole});
  EXPECT_EQ(said_by(3, 7).find(cut), std::string::npos) << "a whole epoch";
  EXPECT_EQ(said_by(5, 5).find(cut), std::string::npos) << "finished: nothing follows";
}

}  // namespace
}  // namespace nsvq
