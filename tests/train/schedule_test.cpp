// Settings that vary by the step, and starts from another run.

#include <gtest/gtest.h>

#include "nsvq/core/temporary_folder.h"
#include "nsvq/io/formats/safetensors.h"
#include "nsvq/tokenizer/open_model.h"
#include "nsvq/train/vq/trainer.h"
#include "tests/error_of.h"
#include "tests/train/run_traces.h"
#include "tests/train/tiny.h"

namespace nsvq {
namespace {

namespace fs = std::filesystem;

class ScheduleTest : public testing::Test {
 protected:
  void train(const TokenizerConfig& config, const fs::path& run) {
    Trainer(config, run, make_single_group()).loop().train();
  }

  TemporaryFolder folder_;
  fs::path run_ = folder_.path() / "run";
};

std::vector<std::pair<std::string, int64_t>> phases_of(const fs::path& run) {
  std::vector<std::pair<std::string, int64_t>> phases;
  for (const auto& line : lines_of_kind(run, "phase")) {
    phases.emplace_back(line.at("phase"), line.at("step"));
  }
  return phases;
}

using Phases = std::vector<std::pair<std::string, int64_t>>;

TEST_F(ScheduleTest, PhasesAreCountedInStepsWhereAskedFor) {
  auto config = tiny_config();
  config.schedule.epoch_steps = 4;  // an epoch of the images has 3
  config.schedule.freeze_epoch = 2;
  train(config, run_);
  EXPECT_EQ(phases_of(run_), (Phases{{"stage1", 0}, {"warmup", 8}, {"stage2", 12}}));
}

TEST_F(ScheduleTest, ALineOfStepsIsOfOnePhase) {
  auto config = tiny_config();
  config.adversarial.weight = 0.1;
  config.adversarial.width = 4;
  config.adversarial.layers = 1;
  config.schedule.freeze_epoch = 1;  // the warm-up has the steps 4 to 6
  config.train.epochs = 3;
  config.train.log_every = 2;
  train(config, run_);
  std::vector<std::pair<int64_t, bool>> adversarial;
  for (const auto& line : lines_of_kind(run_, "step")) {
    adversarial.emplace_back(line.at("step"), line.contains("generator"));
  }
  EXPECT_EQ(adversarial, (std::vector<std::pair<int64_t, bool>>{
                             {2, true}, {4, false}, {6, false}, {8, true}, {9, true}}));
}

TEST_F(ScheduleTest, EpochsCountFromOneInEveryLine) {
  auto config = tiny_config();
  config.schedule.epoch_steps = 4;  // an epoch of the images has 3
  config.schedule.freeze_epoch = 2;
  config.drift.every_steps = 2;
  config.drift.images = 4;
  config.train.check = 5;
  train(config, run_);
  std::vector<int64_t> first;
  for (const auto& line : lines_of_kind(run_, "phase")) first.push_back(line.at("epoch"));
  EXPECT_EQ(first, (std::vector<int64_t>{1, 3, 4})) << "after steps 0, 8 and 12, of 3 an epoch";
  for (const auto* kind : {"step", "check", "drift"}) {
    for (const auto& line : lines_of_kind(run_, kind)) {
      const int64_t step = line.at("step");
      EXPECT_EQ(line.at("epoch"), (step + 2) / 3) << kind << " of step " << step;
    }
  }
}

TEST_F(ScheduleTest, APhaseDoesNotBeginAtTheLastStep) {
  auto config = tiny_config();
  config.schedule.epoch_steps = 9;
  config.schedule.freeze_epoch = 2;
  train(config, run_);
  EXPECT_EQ(phases_of(run_), (Phases{{"stage1", 0}}));
}

TEST_F(ScheduleTest, ThePlateauMayBeOfValidationImages) {
  auto config = tiny_config();
  config.schedule.freeze = "plateau";
  config.schedule.patience = 1;
  config.schedule.commitment = "validation";
  config.drift.images = 4;
  train(config, run_);
  const auto drifts = lines_of_kind(run_, "drift");  // of the start, then of each epoch
  const auto plateau = lines_of_kind(run_, "plateau");
  ASSERT_FALSE(plateau.empty());
  for (size_t epoch = 1; epoch <= plateau.size(); ++epoch) {
    const double error = drifts.at(epoch).at("quantization_error");
    EXPECT_NEAR(plateau[epoch - 1].at("commitment"), error * error, 1e-5 * error * error);
    EXPECT_EQ(plateau[epoch - 1].at("epoch"), epoch);
  }
  int64_t frozen = -1;
  double least = INFINITY;
  for (size_t epoch = 1; epoch < drifts.size() && frozen < 0; ++epoch) {
    const double error = drifts[epoch].at("quantization_error");
    if (epoch > 1 && error >= least) frozen = static_cast<int64_t>(epoch);
    least = std::min(least, error);
  }
  const auto phases = phases_of(run_);
  EXPECT_EQ(std::ssize(plateau), frozen < 0 ? 6 : frozen);
  if (frozen < 0 || frozen == 6) {
    EXPECT_EQ(phases.size(), 1u);
  } else {
    ASSERT_GE(phases.size(), 2u);
    EXPECT_EQ(phases[1].second, 3 * frozen);
  }
}

TEST_F(ScheduleTest, WhatThePlateauGoesByIsLoggedWhereTheEpochsLineHasAnother) {
  auto config = tiny_config();
  config.schedule.freeze = "plateau";
  config.schedule.patience = 6;  // as many epochs as there are: not frozen
  train(config, folder_.path() / "plain");
  EXPECT_TRUE(lines_of_kind(folder_.path() / "plain", "plateau").empty());
  config.schedule.smoothing = 0.5;
  train(config, run_);
  const auto epochs = lines_of_kind(run_, "epoch"), plateau = lines_of_kind(run_, "plateau");
  ASSERT_EQ(plateau.size(), epochs.size());
  double mean = epochs[0].at("commitment");
  for (size_t i = 0; i < epochs.size(); ++i) {
    mean = 0.5 * mean + 0.5 * epochs[i].at("commitment").get<double>();
    EXPECT_DOUBLE_EQ(plateau[i].at("commitment"), mean) << i;
  }
}

TEST_F(ScheduleTest, CodesAreReplacedWithinEpochs) {
  auto config = tiny_config();
  config.quantizer.codes = 512;  // more than the latents of two steps, so that some are unused
  config.replacement.every_steps = 2;
  config.replacement.of<CopyReplacementConfig>().exempt_steps = 2;
  config.train.steps = 6;
  config.schedule.freeze = "never";
  config.checkpoint = {.every_steps = 1, .keep = 100};
  train(config, run_);
  std::vector<int64_t> replaced;
  for (const int64_t step : {2, 3, 4, 5, 6}) {
    const auto state = read_safetensors(run_ / "checkpoints" / fmt::format("step-{}", step) /
                                        "training.safetensors")
                           .tensors;
    replaced.push_back(state.at("replaced").item<int64_t>());
    const auto window = state.at("window_usage").sum().item<int64_t>();
    EXPECT_EQ(window, step % 2 == 0 ? 0 : 8 * 64) << "latents since the last window";
  }
  EXPECT_EQ(replaced[0], 0) << "exempt";
  EXPECT_GT(replaced[2], 0);
  EXPECT_EQ(replaced[2], replaced[3]);
  const auto epochs = lines_of_kind(run_, "epoch");
  EXPECT_GT(epochs[1].at("replaced").get<double>(), 0);
}

TEST_F(ScheduleTest, TheRateIsLoggedWhereItVaries) {
  auto config = tiny_config();
  config.train.steps = 4;
  train(config, folder_.path() / "constant");
  EXPECT_FALSE(lines_of_kind(folder_.path() / "constant", "step").front().contains("lr"));
  config.optimizer.schedule = {.shape = "linear", .warmup_steps = 2};
  train(config, run_);
  std::vector<double> rates;
  for (const auto& line : lines_of_kind(run_, "step")) rates.push_back(line.at("lr"));
  ASSERT_EQ(rates.size(), 4u);
  for (const auto& [i, share] : {std::pair{0, 0.5}, {1, 1.0}, {2, 1.0}, {3, 0.5}}) {
    EXPECT_NEAR(rates[i], share * config.optimizer.lr, 1e-9) << i;
  }
}

TEST_F(ScheduleTest, ARunStartsFromTheNetworksOfAnother) {
  auto config = tiny_config();
  config.train.steps = 3;
  train(config, run_);
  auto next = load_config("", {"train.init_from=" + run_.string()});
  EXPECT_EQ(next.quantizer.init, "kmeans") << "codes start from its latents";
  config.train.init_from = run_.string();
  config.quantizer.init = "kmeans";
  config.seed = 5;
  config.optimizer.lr = 1e-30;  // what the first checkpoint holds is the start
  config.train.steps = 1;
  train(config, folder_.path() / "next");
  const auto from = load_model(run_), to = load_model(folder_.path() / "next");
  for (const auto& [name, tensor] : named_tensors(*from.tokenizer)) {
    const auto started = named_tensors(*to.tokenizer).at(name);
    EXPECT_EQ(at::allclose(tensor, started, 1e-5, 1e-7), !name.starts_with("quantizer.")) << name;
  }
}

TEST_F(ScheduleTest, OtherNetworksAreRefusedByTheirSetting) {
  auto config = tiny_config();
  config.train.steps = 1;
  train(config, run_);
  config.train.init_from = run_.string();
  auto wider = config, other_colors = config;
  wider.model.width = 16;
  other_colors.model.colors = "opponent";  // weights of equal shapes with another meaning
  for (const auto& [other, key] :
       {std::pair(wider, "model.width"), {other_colors, "model.colors"}}) {
    const auto error = error_of([&] { train(other, folder_.path() / "next"); });
    EXPECT_NE(error.find("train.init_from"), std::string::npos) << error;
    EXPECT_NE(error.find(key), std::string::npos) << error;
    EXPECT_FALSE(fs::exists(folder_.path() / "next"));
  }
}

TEST(Settings, AFactorOfZeroSaysHowToFreeze) {
  const auto error = error_of([] { load_config("", {"optimizer.scale.encoder=0"}); });
  EXPECT_NE(error.find("schedule.freeze"), std::string::npos) << error;
}

}  // namespace
}  // namespace nsvq
