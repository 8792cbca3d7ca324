// A run goes on in another folder with other settings, and stays as it is.

#include "nsvq/runs/fork.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "nsvq/core/interrupt.h"
#include "nsvq/core/temporary_folder.h"
#include "nsvq/io/files/file.h"
#include "nsvq/runs/config.h"
#include "nsvq/runs/layout/layout.h"
#include "nsvq/runs/list.h"
#include "nsvq/tokenizer/open_model.h"
#include "nsvq/train/vq/trainer.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/train/run_traces.h"
#include "tests/train/tiny.h"

namespace nsvq {
namespace {

namespace fs = std::filesystem;

/// All that has state: discriminator, ramp, drift, replacement, codes from data, a best checkpoint.
TokenizerConfig forked_config() {
  auto config = tiny_config();
  config.quantizer.init = "data";
  config.adversarial.weight = 0.1;
  config.adversarial.width = 4;
  config.adversarial.layers = 1;
  config.drift.every_steps = 2;
  config.drift.images = 4;
  config.train.log_every = 2;
  config.train.samples_every = 1;
  config.train.eval_every = 1;
  config.checkpoint.every_steps = 2;
  config.checkpoint.keep = 1;
  config.checkpoint.keep_best = "psnr";
  return config;
}

struct CrashOfFork {};

/// Trains in a folder; a step to crash at, or none.
void train_in(const TokenizerConfig& config, const fs::path& folder, Start start,
              int64_t crash_at = -1, const fs::path& fork_of = {}) {
  catch_interrupts();
  Trainer trainer(config, folder, make_single_group(), start, std::nullopt, fork_of);
  trainer.loop().on_step([=](const RunState& state) {
    if (state.step == crash_at) throw CrashOfFork();
  });
  trainer.loop().train();
}

/// Every file below a folder with its bytes.
std::map<std::string, std::string> contents_of(const fs::path& folder) {
  std::map<std::string, std::string> contents;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) contents[entry.path().string()] = read_text(entry.path());
  }
  return contents;
}

class ForkTest : public testing::Test {
 protected:
  /// A run of 18 steps that crashed behind step 11: its newest checkpoint is of step 10, within an
  /// epoch of the warm-up.
  static void SetUpTestSuite() {
    folder_ = std::make_unique<TemporaryFolder>();
    train_in(forked_config(), whole(), Start::fresh);
    EXPECT_THROW(train_in(forked_config(), run(), Start::fresh, 11), CrashOfFork);
  }
  static void TearDownTestSuite() { folder_.reset(); }
  static fs::path whole() { return folder_->path() / "whole"; }
  static fs::path run() { return folder_->path() / "run"; }

  void SetUp() override { fs::remove_all(fork_); }

  void fork(const TokenizerConfig& config, int64_t crash_at = -1) {
    train_in(config, fork_, Start::fork, crash_at, run());
  }
  /// What refuses a fork, which leaves nothing behind.
  std::string refusal(const TokenizerConfig& config) {
    const auto error = error_of([&] { fork(config); });
    EXPECT_EQ(std::distance(fs::directory_iterator(folder_->path()), {}), 2);
    return error;
  }

  static std::unique_ptr<TemporaryFolder> folder_;
  fs::path fork_ = folder_->path() / "fork";
};
std::unique_ptr<TemporaryFolder> ForkTest::folder_;

TEST_F(ForkTest, WithoutChangesGoesOnBitForBitAndLeavesTheRunAlone) {
  const auto before = contents_of(run());
  testing::internal::CaptureStderr();
  fork(forked_config());
  expect_contains(testing::internal::GetCapturedStderr(),
                  {"forked " + fork_.string() + " from " + run().string() +
                       "/checkpoints/step-10: no setting changed\n",
                   "resuming " + fork_.string() + " from "});
  expect_same_runs(whole(), fork_);
  EXPECT_EQ(contents_of(run()), before);
  for (const auto& entry : fs::directory_iterator(whole() / "samples")) {
    const auto name = entry.path().filename();
    EXPECT_EQ(read_text(fork_ / "samples" / name), read_text(entry.path())) << name;
  }
  EXPECT_EQ(read_text(fork_ / "checkpoints/best"), read_text(whole() / "checkpoints/best"));
  EXPECT_EQ(load_model(fork_ / "checkpoints/best").config.seed, forked_config().seed);
}

TEST_F(ForkTest, ChangesStandInTheSettingsAndInTheLog) {
  auto config = forked_config();
  config.optimizer.lr = 0.0005;
  config.train.epochs = 7;
  config.schedule.ramp_epochs = 1;
  testing::internal::CaptureStderr();
  EXPECT_THROW(fork(config, 15), CrashOfFork);
  expect_contains(testing::internal::GetCapturedStderr(),
                  {"/checkpoints/step-10: optimizer.lr 0.001 -> 0.0005, schedule.ramp_epochs 2 -> "
                   "1, train.epochs 6 -> 7 (command line)\n"});
  EXPECT_EQ(to_yaml(load_run_config(fork_)), to_yaml(with_absolute_paths(config)));
  EXPECT_EQ(load_model(fork_).config.optimizer.lr, 0.0005);
  // It resumes as any run.
  train_in(config, fork_, Start::resume);
  const auto straight = folder_->path() / "straight";
  train_in(config, straight, Start::fork, -1, run());
  expect_same_runs(straight, fork_);
  EXPECT_EQ(load_run_state(list_checkpoints(fork_).back()).step, 21);
  fs::remove_all(straight);
}

/// A grey picture, the best evaluation and drift are of the images at hand; also where the fork is
/// killed before its first own checkpoint.
TEST_F(ForkTest, OtherValidationImagesAreMeasuredAnew) {
  auto config = forked_config();
  config.data.val = "builtin:dead-leaves?size=16&count=5&seed=9";
  testing::internal::CaptureStderr();
  EXPECT_THROW(fork(config, 11), CrashOfFork);
  expect_contains(testing::internal::GetCapturedStderr(),
                  {"from here on evaluations use different images"});
  EXPECT_FALSE(fs::exists(fork_ / "checkpoints/best"));
  EXPECT_TRUE(load_run_state(list_checkpoints(fork_).back()).evaluation.empty());
  train_in(config, fork_, Start::resume);
  const auto described = lines_of_kind(fork_, "validation");
  ASSERT_EQ(described.size(), 2u);
  EXPECT_EQ(described[0].at("images"), 7);
  EXPECT_EQ(described[1].at("images"), 5);
  EXPECT_EQ(described[1].at("step"), 12);
  EXPECT_NE(described[0].at("grey_psnr"), described[1].at("grey_psnr"));
  EXPECT_EQ(described[0], lines_of_kind(run(), "validation").at(0));
  EXPECT_GE(load_run_state(list_checkpoints(fork_).back()).best.step, 12);
  for (const auto& line : lines_of_kind(fork_, "drift")) {
    EXPECT_EQ(line.contains("drift"), line.at("step") != 0 && line.at("step") != 12) << line;
  }
}

/// Killed before its first own checkpoint, a fork goes on from the one that it was made of.
TEST_F(ForkTest, ResumesFromItsFirstCheckpoint) {
  auto config = forked_config();
  config.optimizer.lr = 0.0005;
  EXPECT_THROW(fork(config, 11), CrashOfFork);
  EXPECT_EQ(list_checkpoints(fork_).back().filename(), "step-10");
  EXPECT_EQ(load_model(list_checkpoints(fork_).back()).config.optimizer.lr, 0.0005);
  train_in(config, fork_, Start::resume);
  EXPECT_TRUE(load_run_state(list_checkpoints(fork_).back()).finished);
}

TEST_F(ForkTest, WhatDoesNotFitIsRefusedBeforeAnythingIsMade) {
  const auto with = [](const auto& change) {
    auto config = forked_config();
    change(config);
    return config;
  };
  expect_contains(refusal(with([](auto& config) {
                    config.model.width = 16;
                    config.quantizer.codes = 64;
                    config.optimizer.lr = 1;
                  })),
                  {"step-10: weights and state do not fit with model.width 8 -> 16, "
                   "quantizer.codes 32 -> 64; a fork keeps these settings"});
  expect_contains(refusal(with([](auto& config) { config.quantizer.type = "vq"; })),
                  {"quantizer.type nsvq -> vq"});
  expect_contains(refusal(with([](auto& config) { config.schedule.phases = {"stage1"}; })),
                  {"is in phase warmup, so schedule.phases must begin with [stage1, warmup]"});
  expect_contains(refusal(with([](auto& config) { config.quantizer.tau_of_nearest = 1; })),
                  {"--fork: the state does not fit the changed settings: ", "nearest_distance"});
  expect_contains(refusal(with([](auto& config) {
                    config.data.train = "builtin:dead-leaves?size=16&count=25";
                  })),
                  {"images: 24 then, 25 now"});
  expect_contains(refusal(with([](auto& config) { config.train.epochs = 3; })),
                  {"has spent its budget", "train.epochs=4 or more"});
}

TEST_F(ForkTest, ADiscriminatorThatIsNotThereIsNamed) {
  auto config = forked_config();
  config.adversarial.weight = 0;
  const auto plain = folder_->path() / "plain";
  EXPECT_THROW(train_in(config, plain, Start::fresh, 3), CrashOfFork);
  expect_contains(
      error_of([&] { train_in(forked_config(), fork_, Start::fork, -1, plain); }),
      {"step-2: has no discriminator to go on with (adversarial.weight 0 -> 0.1)", "init_from="});
  fs::remove_all(plain / "checkpoints");
  expect_contains(error_of([&] { train_in(config, fork_, Start::fork, -1, plain); }),
                  {"has no checkpoint yet to go on from"});
  fs::remove_all(plain);
  EXPECT_FALSE(fs::exists(fork_));
}

TEST_F(ForkTest, TheFolderMustBeFree) {
  EXPECT_NO_THROW(require_free_folder(run(), fork_));
  fs::create_directory(fork_);
  EXPECT_NO_THROW(require_free_folder(run(), fork_));
  const auto refused = [&](const fs::path& folder) {
    return error_of([&] { require_free_folder(run(), folder); });
  };
  expect_contains(refused(whole()), {"already holds a run", "--resume"});
  expect_contains(refused(run()), {"lies in the run"});
  expect_contains(refused(run() / "checkpoints/new"), {"lies in the run"});
  write_text(fork_ / "photo.png", "a picture");
  expect_contains(refused(fork_), {"is not an empty folder"});
  expect_contains(refused(fork_ / "photo.png"), {"is not an empty folder"});
  // Something that came there since is not replaced.
  EXPECT_THROW(fork(forked_config()), UserError);
  EXPECT_EQ(contents_of(fork_).size(), 1u);
}

/// Files larger than 16 kB cannot be written, as on a full disk.
class SmallFiles {
 public:
  SmallFiles() {
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    rlimit limit = before_;
    limit.rlim_cur = 16 * 1024;
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~SmallFiles() { setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

TEST_F(ForkTest, OneThatCannotBeWrittenLeavesNothing) {
  const SmallFiles limit;
  EXPECT_THROW(fork(forked_config()), RunError);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_->path()), {}), 2);
}

TEST_F(ForkTest, WhatAKilledCommandLeftIsNoRun) {
  const auto left = folder_->path() / ".fork.tmp-1234-0";
  write_text(left / "config.yaml", to_yaml(forked_config()));
  EXPECT_EQ(find_runs(folder_->path()), (std::vector<fs::path>{run(), whole()}));
  fs::remove_all(left);
}

}  // namespace
}  // namespace nsvq
