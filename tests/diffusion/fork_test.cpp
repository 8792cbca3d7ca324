// A run of latent diffusion goes on in another folder with other settings, and stays as it is.

#include "nsvq/runs/fork.h"

#include <gtest/gtest.h>

#include "nsvq/diffusion/diffusion_model.h"
#include "nsvq/runs/config.h"
#include "nsvq/runs/layout/layout.h"
#include "tests/diffusion/tiny_diffusion.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/train/run_traces.h"

namespace nsvq {
namespace {

namespace fs = std::filesystem;

struct CrashOfDiffusion {};

/// Trains in a folder; a step to crash at, or none.
void train_diffusion_in(const DiffusionConfig& config, const fs::path& folder, Start start,
                        int64_t crash_at = -1, const fs::path& fork_of = {}) {
  DiffusionTrainer trainer(config, folder, make_single_group(), start, std::nullopt, fork_of);
  trainer.loop().on_step([=](const RunState& state) {
    if (state.step == crash_at) throw CrashOfDiffusion();
  });
  trainer.loop().train();
}

/// A run of 6 steps that crashed behind step 5: its newest checkpoint is of step 4.
class DiffusionFork : public testing::Test {
 protected:
  void SetUp() override {
    config_ = tiny_diffusion_config(write_tiny_tokenizer(folder_.path()));
    config_.checkpoint.every_steps = 2;
    EXPECT_THROW(train_diffusion_in(config_, run_, Start::fresh, 5), CrashOfDiffusion);
  }
  void fork(const DiffusionConfig& config) {
    train_diffusion_in(config, fork_, Start::fork, -1, run_);
  }
  std::string refusal(const DiffusionConfig& config) {
    const auto error = error_of([&] { fork(config); });
    EXPECT_FALSE(fs::exists(fork_)) << "nothing is begun";
    return error;
  }

  TemporaryFolder folder_;
  fs::path run_ = folder_ / "run", fork_ = folder_ / "fork";
  DiffusionConfig config_;
};

TEST_F(DiffusionFork, WithoutChangesGoesOnBitForBit) {
  const auto before = read_text(run_ / "metrics.jsonl");
  fork(config_);
  const auto whole = folder_ / "whole";
  train_diffusion_in(config_, whole, Start::fresh);
  expect_same_runs(whole, fork_);
  EXPECT_EQ(read_text(run_ / "metrics.jsonl"), before);
  EXPECT_EQ(list_checkpoints(run_).back().filename(), "step-4");
}

TEST_F(DiffusionFork, ChangesStandInTheSettings) {
  auto config = config_;
  config.optimizer.lr = 0.0005;
  config.train.epochs = 3;
  config.noise.schedule = "cosine";
  testing::internal::CaptureStderr();
  fork(config);
  expect_contains(testing::internal::GetCapturedStderr(),
                  {"forked " + fork_.string() + " from " + run_.string() + "/checkpoints/step-4: ",
                   "diffusion.schedule linear -> cosine", "optimizer.lr 0.001 -> 0.0005",
                   "train.epochs 2 -> 3 (command line)\n"});
  EXPECT_EQ(list_checkpoints(fork_).back().filename(), "step-9");
  const auto model = load_diffusion(fork_);
  EXPECT_EQ(model.config.optimizer.lr, 0.0005);
  EXPECT_EQ(model.tokenizer.sha256, load_diffusion(run_).tokenizer.sha256);
  EXPECT_EQ(load_run_config<DiffusionConfig>(fork_).noise.schedule, "cosine");
}

TEST_F(DiffusionFork, WhatDoesNotFitIsRefusedBeforeAnythingIsMade) {
  auto wider = config_;
  wider.unet.width = 16;
  wider.objective.prediction = "v";
  wider.optimizer.lr = 1;
  expect_contains(refusal(wider),
                  {"step-4: weights and state do not fit with diffusion.prediction eps -> v, "
                   "unet.width 8 -> 16; a fork keeps these settings"});
  auto shorter = config_;
  shorter.train.epochs = 1;
  expect_contains(refusal(shorter), {"has spent its budget", "train.epochs=2 or more"});
  auto other = tiny_tokenizer_config();
  other.seed = 1;
  write_tiny_tokenizer(folder_.path(), other);
  expect_contains(refusal(config_), {"is not the tokenizer that " + run_.string()});
}

}  // namespace
}  // namespace nsvq
