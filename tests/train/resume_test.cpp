// A run that is stopped at any moment and continued is the run that was never stopped.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <cmath>
#include <fstream>
#include <stdexcept>

#include "nsvq/core/error.h"
#include "nsvq/core/interrupt.h"
#include "nsvq/core/temporary_folder.h"
#include "nsvq/io/files/folder_checksums.h"
#include "nsvq/io/formats/contents_hash.h"
#include "nsvq/io/formats/safetensors.h"
#include "nsvq/quantizers/members.h"
#include "nsvq/runs/choice.h"
#include "nsvq/runs/layout/layout.h"
#include "nsvq/tokenizer/open_model.h"
#include "nsvq/train/vq/trainer.h"
#include "tests/reset_signals.h"
#include "tests/train/every_quantizer.h"
#include "tests/train/run_traces.h"
#include "tests/train/tiny.h"

namespace nsvq {
namespace {

namespace fs = std::filesystem;

struct Crash : std::runtime_error {
  Crash() : std::runtime_error("crash") {}
};

/// All that has state: discriminator, LeCAM, ramp, drift, replacement, a codebook from data.
TokenizerConfig full_config() {
  auto config = tiny_config();
  config.quantizer.init = "data";
  config.adversarial.weight = 0.1;
  config.adversarial.width = 4;
  config.adversarial.layers = 1;
  config.adversarial.lecam = 0.1;
  config.adversarial.adaptive = true;
  config.drift.every_steps = 2;
  config.drift.images = 4;
  config.drift.ste_gap = true;
  config.train.log_every = 2;
  config.train.samples_every = 3;
  config.checkpoint.every_steps = 2;
  config.checkpoint.keep = 3;
  return config;
}

Outcome run(const TokenizerConfig& config, const fs::path& folder, Start start,
            int64_t crash_at = -1) {
  catch_interrupts();
  Trainer trainer(config, folder, make_single_group(), start);
  trainer.loop().on_step([=](const RunState& state) {
    if (state.step == crash_at) throw Crash();
  });
  return trainer.loop().train();
}

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "no error";
}

void flip_a_byte(const fs::path& file) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  const auto middle = static_cast<std::streamoff>(fs::file_size(file) / 2);
  stream.seekg(middle);
  const char byte = static_cast<char>(stream.get() ^ 1);
  stream.seekp(middle);
  stream.put(byte);
}

class ResumeTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<TemporaryFolder>();
    run(full_config(), whole(), Start::fresh);
  }
  static void TearDownTestSuite() { folder_.reset(); }
  static fs::path whole() { return folder_->path() / "whole"; }
  fs::path crashed(int64_t step) {
    const auto path = folder_->path() / fmt::format("crashed-{}", step);
    fs::remove_all(path);  // another test's
    EXPECT_THROW(run(full_config(), path, Start::fresh, step), Crash);
    return path;
  }

  static std::unique_ptr<TemporaryFolder> folder_;
};
std::unique_ptr<TemporaryFolder> ResumeTest::folder_;

TEST_F(ResumeTest, FromACrashAtAnyStep) {
  for (const int64_t step : {1, 2, 3, 6, 7, 9, 10, 12, 13, 15, 17, 18}) {
    const auto path = crashed(step);
    EXPECT_TRUE(run(full_config(), path, Start::resume).finished);
    expect_same_runs(whole(), path);
  }
}

/// Whatever they keep: statistics, random numbers, annealing.
TEST_F(ResumeTest, OfEveryQuantizer) {
  for (const auto& kind : quantizer_kinds()) {
    if (!kind.untrained.empty()) continue;
    SCOPED_TRACE(kind.name);
    auto config = tiny_config_with_files(kind.name, folder_->path());
    config.train.epochs = 2;  // of three steps; goes on from the second
    config.checkpoint.every_steps = 2;
    const auto straight = folder_->path() / kind.name, path = folder_->path() / (kind.name + "-2");
    run(config, straight, Start::fresh);
    EXPECT_THROW(run(config, path, Start::fresh, 3), Crash);
    run(config, path, Start::resume);
    expect_same_runs(straight, path);
  }
}

/// Alarms in windows of steps, which do not end with epochs: what of them a checkpoint holds.
TEST_F(ResumeTest, OfWindowsOfAlarms) {
  auto config = tiny_config();
  config.quantizer.codes = 512;
  config.train.epochs = 4;  // of three steps
  config.alarm = {.epochs = 1, .steps = 2, .utilisation = 1};
  config.checkpoint.every_steps = 1;
  const auto straight = folder_->path() / "windows";
  run(config, straight, Start::fresh);
  const auto alarms = lines_of_kind(straight, "alarm");
  ASSERT_FALSE(alarms.empty());
  EXPECT_EQ(alarms[0].at("step"), 2) << "of the first window";
  for (const int64_t step : {1, 2, 3, 5, 8}) {
    const auto path = folder_->path() / fmt::format("windows-{}", step);
    EXPECT_THROW(run(config, path, Start::fresh, step), Crash);
    run(config, path, Start::resume);
    expect_same_runs(straight, path);
  }
}

TEST_F(ResumeTest, OfARelativeNsLoss) {
  for (const std::string type : {"nsvq", "simvq_ns"}) {
    SCOPED_TRACE(type);
    auto config = with_relative_ns_loss(tiny_config_with_files(type, folder_->path()), "gaussian");
    config.train.epochs = 2;
    config.checkpoint.every_steps = 2;
    const auto straight = folder_->path() / ("relative-" + type);
    const auto path = folder_->path() / ("relative-" + type + "-2");
    run(config, straight, Start::fresh);
    EXPECT_THROW(run(config, path, Start::fresh, 3), Crash);
    run(config, path, Start::resume);
    expect_same_runs(straight, path);
  }
}

TEST_F(ResumeTest, OfSettingsThatVaryByTheStep) {
  auto config = full_config();
  vary_by_the_step(config);
  const auto straight = folder_->path() / "varying";
  run(config, straight, Start::fresh);
  for (const int64_t step : {3, 5, 8, 9, 11, 15}) {
    const auto path = folder_->path() / fmt::format("varying-{}", step);
    EXPECT_THROW(run(config, path, Start::fresh, step), Crash);
    run(config, path, Start::resume);
    expect_same_runs(straight, path);
  }
}

TEST_F(ResumeTest, OfAnAugmentedDiscriminatorThatIsHeld) {
  auto config = full_config();
  config.adversarial.augment = {"flip", "colour", "shift", "cutout"};
  config.adversarial.target_hinge = 0.99;
  config.adversarial.least_ratio = 0.5;
  config.adversarial.r1 = 0.5;
  config.adversarial.r1_every = 3;
  config.train.accumulate = 2;
  config.train.batch_size = 4;
  const auto straight = folder_->path() / "augmented";
  run(config, straight, Start::fresh);
  for (const int64_t step : {3, 8, 15}) {
    const auto path = folder_->path() / fmt::format("augmented-{}", step);
    EXPECT_THROW(run(config, path, Start::fresh, step), Crash);
    run(config, path, Start::resume);
    expect_same_runs(straight, path);
  }
}

/// At the end of an epoch, and within one.
TEST_F(ResumeTest, OfCodesRefittedAtTheFreeze) {
  for (const std::string type : {"nsvq", "ema"}) {
    for (const int64_t epoch_steps : {0, 5}) {
      auto config = full_config();
      config.quantizer.type = type;
      config.schedule.refit = "kmeans";
      config.schedule.epoch_steps = epoch_steps;
      config.schedule.freeze_epoch = 2;
      config.checkpoint.every_steps = 1;
      const auto name = fmt::format("refitted-{}-{}", type, epoch_steps);
      const auto straight = folder_->path() / name;
      run(config, straight, Start::fresh);
      const int64_t frozen = epoch_steps == 0 ? 6 : 10;
      for (const int64_t step : {frozen - 1, frozen, frozen + 1}) {
        const auto path = folder_->path() / fmt::format("{}-{}", name, step);
        EXPECT_THROW(run(config, path, Start::fresh, step), Crash);
        run(config, path, Start::resume);
        expect_same_runs(straight, path);
      }
    }
  }
}

TEST_F(ResumeTest, FromSeveralCrashes) {
  const auto path = crashed(5);
  for (const int64_t step : {6, 11, 12, 16}) {
    EXPECT_THROW(run(full_config(), path, Start::resume, step), Crash);
  }
  run(full_config(), path, Start::resume);
  expect_same_runs(whole(), path);
}

TEST_F(ResumeTest, FromASignal) {
  const auto path = folder_->path() / "signalled";
  reset_signals();
  catch_interrupts();
  Trainer trainer(full_config(), path, make_single_group());
  trainer.loop().on_step([](const RunState& state) {
    if (state.step == 7) raise(SIGTERM);
  });
  EXPECT_FALSE(trainer.loop().train().finished);
  EXPECT_EQ(list_checkpoints(path).back().filename(), "step-7");
  signal(SIGTERM, SIG_DFL);
  // One process at a time.
  EXPECT_NE(error_of([&] { run(full_config(), path, Start::resume); }).find("another process"),
            std::string::npos);
}

TEST_F(ResumeTest, PassesOverDamagedCheckpoints) {
  const auto path = crashed(14);
  auto folders = list_checkpoints(path);
  ASSERT_EQ(folders.size(), 3u);  // step-10, 12, 14
  flip_a_byte(folders[2] / "training.safetensors");
  EXPECT_NE(folder_damage(folders[2])->find("training.safetensors"), std::string::npos);
  fs::resize_file(folders[1] / "model.safetensors", 1000);
  EXPECT_NE(folder_damage(folders[1])->find("1000 bytes"), std::string::npos);
  EXPECT_EQ(newest_checkpoint(path), folders[0]);
  EXPECT_EQ(open_model_file(path).path, folders[2] / "model.safetensors")
      << "inference reads no more";
  run(full_config(), path, Start::resume);
  expect_same_runs(whole(), path);
}

TEST_F(ResumeTest, StartsOverWithoutACheckpoint) {
  const auto path = crashed(4);
  for (const auto& folder : list_checkpoints(path)) fs::remove_all(folder);
  run(full_config(), path, Start::resume);
  expect_same_runs(whole(), path);
}

TEST_F(ResumeTest, OfDamagedCheckpointsAloneIsRefused) {
  const auto path = crashed(4);
  const auto folders = list_checkpoints(path);
  for (const auto& folder : folders) fs::resize_file(folder / "model.safetensors", 1000);
  const auto metrics = read_text(fs::path(path) / "metrics.jsonl");
  const auto error = error_of([&] { run(full_config(), path, Start::resume); });
  EXPECT_NE(error.find("all of its checkpoints are damaged"), std::string::npos) << error;
  EXPECT_EQ(list_checkpoints(path), folders);
  EXPECT_EQ(read_text(fs::path(path) / "metrics.jsonl"), metrics);
}

TEST_F(ResumeTest, FromAnAverageThatIsNotFiniteIsRefused) {
  const auto path = crashed(4);
  const auto folder = list_checkpoints(path).back();
  auto model = read_safetensors(folder / "model.safetensors");
  model.tensors.at("quantizer.codebook").fill_(NAN);
  add_contents_hash(model);
  write_safetensors(folder / "model.safetensors", model);
  fs::remove(folder / "manifest.json");
  write_checksums(folder);
  const auto error = error_of([&] { run(full_config(), path, Start::resume); });
  EXPECT_NE(error.find("'quantizer.codebook' of step-4 holds NaN"), std::string::npos) << error;
}

TEST_F(ResumeTest, ADamagedCheckpointIsRefusedByName) {
  const auto folder = list_checkpoints(crashed(4)).back();
  EXPECT_EQ(open_model_file(folder).path, folder / "model.safetensors");
  flip_a_byte(folder / "model.safetensors");
  for (const auto& named : {folder, folder / "model.safetensors"}) {
    const auto error = error_of([&] { open_model_file(named); });
    EXPECT_NE(error.find("model.safetensors: damaged"), std::string::npos) << error;
  }
}

TEST_F(ResumeTest, StartingOverReadsFilesAgain) {
  const TemporaryFolder folder;
  auto config = tiny_config_of("vqgan_lc");
  config.quantizer.of<FeaturesConfig>().file = folder / "features.safetensors";
  write_safetensors(folder / "features.safetensors", {{{"features", at::randn({32, 9})}}, {}});
  { Trainer(config, folder / "run", make_single_group()); }  // killed before its first checkpoint
  const auto again =
      Trainer(config, folder / "run", make_single_group(), Start::resume).loop().train();
  const auto whole = Trainer(config, folder / "other", make_single_group()).loop().train();
  EXPECT_EQ(again.evaluation.at("psnr"), whole.evaluation.at("psnr"));
}

TEST_F(ResumeTest, RefusesAnotherConfigurationAndTakesALongerBudget) {
  const auto path = crashed(8);
  auto other = full_config();
  other.optimizer.lr = 0.5;
  other.seed = 3;
  const auto error = error_of([&] { run(other, path, Start::resume); });
  EXPECT_NE(error.find("optimizer.lr (0.5 here, 0.001 there)"), std::string::npos) << error;
  EXPECT_NE(error.find("seed"), std::string::npos) << error;

  auto fewer = full_config();
  fewer.data.train = "builtin:dead-leaves?size=16&count=25";
  EXPECT_NE(error_of([&] { run(fewer, path, Start::resume); }).find("images: 24 then, 25 now"),
            std::string::npos);

  auto longer = full_config();
  longer.train.epochs = 7;
  run(full_config(), path, Start::resume);
  EXPECT_TRUE(run(longer, path, Start::resume).finished);
  EXPECT_EQ(load_run_state(list_checkpoints(path).back()).step, 21);
}

TEST_F(ResumeTest, TheCommandContinuesWhatIsUnfinished) {
  const auto before = fs::current_path();
  fs::current_path(folder_->path());
  const auto config = full_config();
  EXPECT_EQ(choose_run(match_of(config), {.name = "a"}).folder, "runs/a");
  {
    const auto one = choose_run(match_of(config), {.name = "a"}),
               other = choose_run(match_of(config), {.name = "a"});
    EXPECT_NE(one.folder, other.folder) << "two processes that start at once";
  }
  EXPECT_NE(error_of([&] { choose_run(match_of(config), {.name = "a", .resume = true}); }),
            "no error");
  EXPECT_THROW(run(config, "runs/a", Start::fresh, 3), Crash);

  EXPECT_EQ(choose_run(match_of(config), {.name = "a"}).start, Start::resume);
  EXPECT_EQ(choose_run(match_of(config), {.name = "a", .fresh = true}).folder, "runs/a-2");
  EXPECT_EQ(choose_run(match_of(config), {.name = "b", .folder = "runs/a"}).start, Start::resume);
  auto other = config;
  other.seed = 9;
  EXPECT_EQ(choose_run(match_of(other), {.name = "a"}).folder, "runs/a-2");
  EXPECT_NE(
      error_of([&] { choose_run(match_of(other), {.name = "a", .resume = true}); }).find("seed"),
      std::string::npos);

  run(config, "runs/a", Start::resume);
  EXPECT_EQ(choose_run(match_of(config), {.name = "a"}).folder, "runs/a-2");
  EXPECT_EQ(choose_run(match_of(config), {.folder = "runs/a"}).start, Start::resume);
  const auto before_it = timeless_metrics("runs/a");
  const auto again = run(config, "runs/a", Start::resume);
  EXPECT_TRUE(again.finished);
  EXPECT_EQ(again.evaluation.size(), 6u);
  EXPECT_EQ(first_difference(before_it, timeless_metrics("runs/a")), "");
  fs::current_path(before);
}

/// Files larger than `bytes` cannot be written, as on a full disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    rlimit limit = before_;
    limit.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() { setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

TEST_F(ResumeTest, AFullDiskStopsTheRunOrNot) {
  auto config = full_config();
  const auto fill_at = [&](const fs::path& path, bool to_the_end = false) {
    Trainer trainer(config, path, make_single_group());
    std::optional<FileSizeLimit> limit;
    trainer.loop().on_step([&](const RunState& state) {
      if (state.step == 5) limit.emplace(16 * 1024);
      if (state.step == 9 && !to_the_end) limit.reset();
    });
    return trainer.loop().train();
  };
  const auto stopped = folder_->path() / "full";
  const auto error = error_of([&] { fill_at(stopped); });
  EXPECT_NE(error.find("cannot write"), std::string::npos) << error;
  EXPECT_NE(error.find("earlier checkpoints are intact"), std::string::npos) << error;
  EXPECT_TRUE(newest_checkpoint(stopped).has_value());
  run(config, stopped, Start::resume);
  expect_same_runs(whole(), stopped);

  config.checkpoint.on_error = "continue";
  const auto went_on = folder_->path() / "full-but-on";
  EXPECT_TRUE(fill_at(went_on).finished);
  EXPECT_EQ(list_checkpoints(went_on).back().filename(), "step-18");

  const auto lost = error_of([&] { fill_at(folder_->path() / "full-to-the-end", true); });
  EXPECT_NE(lost.find("the last checkpoint written is of step 4"), std::string::npos) << lost;
}

}  // namespace
}  // namespace nsvq
