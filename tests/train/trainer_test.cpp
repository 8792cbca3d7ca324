#include "nsvq/train/vq/trainer.h"

#include <gtest/gtest.h>

#include "nsvq/core/error.h"
#include "nsvq/io/files/file.h"
#include "nsvq/io/formats/safetensors.h"
#include "nsvq/losses/loss.h"
#include "nsvq/runs/layout/layout.h"
#include "nsvq/tokenizer/open_model.h"
#include "tests/train/run_traces.h"
#include "tests/train/tiny.h"
#include "tests/train/trainer_fixture.h"

namespace nsvq {
namespace {

namespace fs = std::filesystem;

TEST_F(TrainerTest, EqualSeedsGiveEqualRunsWhateverTheLoaderThreads) {
  auto config = tiny_config();
  train(config, run_);
  config.data.threads = 5;
  train(config, folder_.path() / "again");
  const auto a = read_safetensors(run_ / "checkpoints/step-18/training.safetensors").tensors;
  const auto b =
      read_safetensors(folder_.path() / "again/checkpoints/step-18/training.safetensors").tensors;
  for (const auto& [name, tensor] : a) EXPECT_TRUE(at::equal(tensor, b.at(name))) << name;
}

TEST_F(TrainerTest, HooksRunAfterEachStepAndEpoch) {
  auto config = tiny_config();
  config.train.epochs = 2;
  Trainer trainer(config, run_, make_single_group());
  std::vector<std::string> seen;
  trainer.loop().on_step(
      [&](const RunState& state) { seen.push_back(fmt::format("s{}", state.step)); });
  trainer.loop().on_epoch(
      [&](const RunState& state) { seen.push_back(fmt::format("e{}", state.epoch)); });
  trainer.loop().train();
  EXPECT_EQ(seen, (std::vector<std::string>{"s1", "s2", "s3", "e1", "s4", "s5", "s6", "e2"}));
}

TEST_F(TrainerTest, CheckpointsEveryNSteps) {
  auto config = tiny_config();
  config.checkpoint = {.every_steps = 4, .keep = 100};
  train(config, run_);
  std::vector<std::string> names;
  for (const auto& path : list_checkpoints(run_)) names.push_back(path.filename());
  EXPECT_EQ(names, (std::vector<std::string>{"step-4", "step-8", "step-12", "step-16", "step-18"}));
  const auto state = load_run_state(run_ / "checkpoints/step-8");
  EXPECT_EQ(state.epoch, 2);
  EXPECT_EQ(state.batch, 2);
}

TEST_F(TrainerTest, ARunIsNeverWrittenOver) {
  auto config = tiny_config();
  config.train.epochs = 1;
  train(config, run_);
  const auto before = read_text(run_ / "metrics.jsonl");
  EXPECT_THROW(train(config, run_), UserError);
  EXPECT_EQ(read_text(run_ / "metrics.jsonl"), before);
}

TEST_F(TrainerTest, ARecipeThatCannotRunLeavesNoFolder) {
  auto config = tiny_config();
  config.data.train = (folder_.path() / "nothing-here").string();
  EXPECT_THROW(train(config, run_), UserError);
  config = tiny_config();
  config.train.batch_size = 1000;
  EXPECT_THROW(train(config, run_), UserError);
  EXPECT_FALSE(fs::exists(run_));
}

TEST_F(TrainerTest, ALossThatIsNotFiniteStopsTheRun) {
  auto config = tiny_config();
  config.optimizer.lr = 1e30;
  try {
    train(config, run_);
    FAIL();
  } catch (const RunError& error) {
    EXPECT_NE(std::string(error.what()).find("optimizer.lr"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("first at"), std::string::npos) << error.what();
  }
}

TEST_F(TrainerTest, StepsThatAreNotFiniteCanBeSkippedUpToALimit) {
  auto config = tiny_config();
  config.loss.of<L1LossConfig>().weight =
      3e38;  // Gradients overflow, so no step moves the weights.
  config.train.on_nonfinite = "skip";
  config.train.nonfinite_limit = 4;
  try {
    train(config, run_);
    FAIL();
  } catch (const RunError& error) {
    EXPECT_NE(std::string(error.what()).find("nonfinite_limit"), std::string::npos) << error.what();
  }
  EXPECT_EQ(load_run_state(list_checkpoints(run_).back()).skipped, 3) << "of epoch 1";
}

TEST_F(TrainerTest, ABudgetInStepsEndsWithinAnEpoch) {
  auto config = tiny_config();
  config.train.steps = 7;
  config.replacement.threshold = 1e9;  // Every code would be replaced at the end of an epoch.
  train(config, run_);
  EXPECT_EQ(list_checkpoints(run_).back().filename(), "step-7");
  EXPECT_EQ(lines_of_kind(run_, "step").size(), 7u);
  EXPECT_EQ(lines_of_kind(run_, "epoch").back().at("replaced"), 0) << "counts were of a part only";
  EXPECT_EQ(lines_of_kind(run_, "eval").back().at("step"), 7);
}

TEST_F(TrainerTest, TheLastStepsHaveALineToo) {
  auto config = tiny_config();
  config.train.steps = 7;
  config.train.log_every = 3;
  train(config, run_);
  std::vector<int64_t> steps;
  for (const auto& line : lines_of_kind(run_, "step")) steps.push_back(line.at("step"));
  EXPECT_EQ(steps, (std::vector<int64_t>{3, 6, 7}));
}

}  // namespace
}  // namespace nsvq
