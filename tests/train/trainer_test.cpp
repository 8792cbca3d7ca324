#include "nsvq/train/trainer.h"

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "nsvq/core/error.h"
#include "nsvq/core/temporary_folder.h"
#include "nsvq/io/file.h"
#include "nsvq/io/safetensors.h"
#include "nsvq/losses/pixel.h"
#include "nsvq/nn/inception.h"
#include "nsvq/tokenizer/model_file.h"
#include "nsvq/tokenizer/recipe.h"
#include "tests/error_of.h"
#include "tests/train/every_quantizer.h"
#include "tests/train/run_traces.h"
#include "tests/train/tiny.h"
#include "tests/weights_store.h"

namespace nsvq {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::map<std::string, double> train(const Config& config, const fs::path& run) {
  return Trainer(config, run, make_group()).train().evaluation;
}

class TrainerTest : public testing::Test {
 protected:
  TemporaryFolder folder_;
  fs::path run_ = folder_.path() / "run";
};

TEST_F(TrainerTest, GoesThroughAllPhasesAndLeavesEverythingBehind) {
  auto config = tiny_config();
  config.checkpoint.keep = 2;
  const auto evaluation = train(config, run_);

  for (const auto* name :
       {"config.yaml", "metrics.jsonl", "report.html", "samples/epoch-0001.png",
        "samples/epoch-0006.png", "checkpoints/step-18/model.safetensors",
        "checkpoints/step-18/training.safetensors", "checkpoints/step-18/state.json"}) {
    EXPECT_TRUE(fs::exists(run_ / name)) << name;
  }
  EXPECT_EQ(list_checkpoints(run_).size(), 2u);
  EXPECT_EQ(to_yaml(load_config((run_ / "config.yaml").string())), to_yaml(config));

  std::vector<std::string> phases;
  for (const auto& line : lines_of_kind(run_, "phase")) {
    phases.push_back(
        fmt::format("{}@{}", line.at("phase").get<std::string>(), line.at("epoch").get<int>()));
  }
  EXPECT_EQ(phases, (std::vector<std::string>{"stage1@1", "warmup@4", "stage2@5"}));

  EXPECT_EQ(lines_of_kind(run_, "step").size(), 18u);
  EXPECT_EQ(lines_of_kind(run_, "epoch").size(), 6u);
  const auto last = lines_of_kind(run_, "eval").back();
  for (const auto* name : {"psnr", "psnr_pooled", "ssim", "utilisation", "perplexity"}) {
    EXPECT_EQ(last.at(name).get<double>(), evaluation.at(name)) << name;
  }
  EXPECT_EQ(evaluation.at("images"), 7);
  // The NS loss belongs to stage 1 alone.
  EXPECT_TRUE(lines_of_kind(run_, "step").front().contains("ns"));
  EXPECT_FALSE(lines_of_kind(run_, "step").back().contains("ns"));
}

TEST_F(TrainerTest, StreamingAndPlainOperatorsGiveOneCurve) {
  auto config = tiny_config();
  train(config, run_);
  config.quantizer.operators = "plain";
  train(config, folder_.path() / "plain");
  const auto ours = lines_of_kind(run_, "step"),
             plain = lines_of_kind(folder_.path() / "plain", "step");
  ASSERT_EQ(ours.size(), plain.size());
  for (size_t i = 0; i < ours.size(); ++i) {
    for (const auto* name : {"loss", "commitment", "ns"}) {
      if (!plain[i].contains(name)) continue;
      const double expected = plain[i].at(name);
      EXPECT_NEAR(ours[i].at(name).get<double>(), expected, 1e-3 * std::abs(expected)) << name << i;
    }
  }
}

TEST_F(TrainerTest, TheFrozenEncoderStandsStillWhileTheRestMoves) {
  auto config = tiny_config();
  config.checkpoint.keep = 100;
  train(config, run_);
  const auto weights = [&](int64_t step) {
    return read_safetensors(run_ / "checkpoints" / fmt::format("step-{}", step) /
                            "training.safetensors")
        .tensors;
  };
  const auto start = weights(3), frozen = weights(9), end = weights(18);
  for (const auto& [name, tensor] : end) {
    const bool same = at::equal(tensor, frozen.at(name));
    if (name.starts_with("model.encoder.")) {
      EXPECT_TRUE(same) << name;
      EXPECT_FALSE(at::equal(frozen.at(name), start.at(name)))
          << name << " did not train in stage 1";
    }
    if (name.starts_with("adam.encoder.")) EXPECT_TRUE(same) << name;
    if (name.starts_with("model.decoder.")) EXPECT_FALSE(same) << name;
    if (name == "model.quantizer.codebook") EXPECT_FALSE(same);
  }
}

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

TEST_F(TrainerTest, ReplacementWaitsForItsExemptionAndIsCounted) {
  auto config = tiny_config();
  config.quantizer.codes = 4096;  // More codes than latents: some are dead for certain.
  train(config, run_);
  const auto epochs = lines_of_kind(run_, "epoch");
  EXPECT_EQ(epochs[0].at("replaced"), 0);
  EXPECT_GT(epochs[1].at("replaced").get<int>(), 2000);
  EXPECT_EQ(epochs[3].at("replaced"), 0) << "the warm-up replaces nothing";
}

/// Two epochs of three steps: images get better through several codes, the encoder has gradients,
/// and everything of the quantizer that Adam moves has moved.
void expect_learned(const fs::path& run) {
  const auto evals = lines_of_kind(run, "eval"), steps = lines_of_kind(run, "step");
  ASSERT_EQ(evals.size(), 2u);
  ASSERT_EQ(steps.size(), 6u);
  EXPECT_GT(evals[1].at("psnr").get<double>(), evals[0].at("psnr").get<double>() + 0.2);
  if (evals[1].contains("perplexity")) EXPECT_GT(evals[1].at("perplexity"), 1.2);
  double l1 = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    EXPECT_GT(steps[i].at("gradient_norm_encoder"), 1e-4) << i;
    l1 += (i < 3 ? -1 : 1) * steps[i].at("l1").get<double>();
  }
  EXPECT_LT(l1, 0) << "the second epoch's less the first's";

  const auto state = [&](const char* step) {
    return read_safetensors(run / "checkpoints" / step / "training.safetensors").tensors;
  };
  const auto before = state("step-3"), after = state("step-6");
  for (const auto& [name, moment] : after) {
    if (!name.starts_with("adam.quantizer.") || !name.ends_with(".moment1")) continue;
    const auto weight = "model" + name.substr(4, name.size() - 4 - std::strlen(".moment1"));
    EXPECT_FALSE(at::equal(before.at(weight), after.at(weight))) << weight;
  }
}

/// Whether a quantizer starts otherwise than with `before`: some have no codebook to initialise, or
/// one way to.
bool starts_otherwise(const Config& config, const Config& before) {
  const auto made = [](const Config& one) {
    torch::manual_seed(1);
    return make_quantizer(one.quantizer, one.model.latent_dim);
  };
  const auto a = made(config), b = made(before);
  if (a->wants_data() || b->wants_data()) return true;
  const auto tensors = named_tensors(*a);
  return std::ranges::any_of(named_tensors(*b), [&](const auto& named) {
    return !at::equal(named.second, tensors.at(named.first));
  });
}

TEST_F(TrainerTest, EveryQuantizerAndInitialisationTrains) {
  for (const auto& kind : quantizer_kinds()) {
    std::optional<Config> before;
    for (const auto* init : {"gaussian", "uniform", "normal", "data", "kmeans"}) {
      SCOPED_TRACE(kind.name + " from " + init);
      auto config = tiny_config_with_files(kind.name, folder_.path());
      config.quantizer.init = init;
      config.optimizer.lr = 3e-3;
      config.train.epochs = 2;
      config.train.eval_every = 1;
      if (before && !starts_otherwise(config, *before)) continue;
      before = config;
      const auto run = folder_.path() / (kind.name + init);
      train(config, run);
      expect_learned(run);
    }
  }
}

TEST_F(TrainerTest, TheLastPhaseLastsUntilTheBudgetIsSpent) {
  auto config = tiny_config();
  config.schedule.phases = {"stage1"};
  config.train.epochs = 5;
  train(config, run_);
  EXPECT_EQ(lines_of_kind(run_, "phase").size(), 1u);
  EXPECT_EQ(lines_of_kind(run_, "epoch").back().at("phase"), "stage1");
}

TEST_F(TrainerTest, HooksRunAfterEachStepAndEpoch) {
  auto config = tiny_config();
  config.train.epochs = 2;
  Trainer trainer(config, run_, make_group());
  std::vector<std::string> seen;
  trainer.on_step([&](const RunState& state) { seen.push_back(fmt::format("s{}", state.step)); });
  trainer.on_epoch([&](const RunState& state) { seen.push_back(fmt::format("e{}", state.epoch)); });
  trainer.train();
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

TEST_F(TrainerTest, EvaluatesByTheMetricsThatTheRecipeNames) {
  WeightsStore store;
  store.add_lpips("squeeze");
  auto config = tiny_config();
  config.data.size = 32;
  config.train.epochs = 2;
  config.train.metrics = {"ssim", "lpips-squeeze", "fd-squeezenet1_1", "entropy"};
  testing::internal::CaptureStderr();
  const auto evaluation = train(config, run_);
  const auto said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(said.find("best PSNR"), std::string::npos);
  EXPECT_NE(said.find("weights      lpips-squeeze: official values, from a test\n"),
            std::string::npos)
      << said;
  const auto lines = lines_of_kind(run_, "eval");
  ASSERT_EQ(lines.size(), 2u);
  for (const auto& name : config.train.metrics) {
    EXPECT_EQ(lines.back().at(name).get<double>(), evaluation.at(name)) << name;
    EXPECT_NE(lines.front().at(name), lines.back().at(name)) << name;
  }
  EXPECT_FALSE(evaluation.contains("psnr"));
  EXPECT_NE(read_text(run_ / "report.html").find("LPIPS (squeeze)"), std::string::npos);

  // Other metrics make no other run, and the later evaluations owe nothing to the earlier ones.
  auto more = config;
  more.train.epochs = 3;
  more.train.metrics = {"psnr", "lpips-squeeze"};
  testing::internal::CaptureStderr();
  const auto resumed = Trainer(more, run_, make_group(), Start::resume).train().evaluation;
  EXPECT_NE(testing::internal::GetCapturedStderr().find("best PSNR"), std::string::npos);
  const auto whole = train(more, folder_.path() / "whole");
  EXPECT_EQ(resumed, whole);
}

TEST_F(TrainerTest, EvaluatesByFid) {
  WeightsStore store;
  store.add("inception", Inception());
  auto config = tiny_config();
  config.data.val = "builtin:dead-leaves?size=16&count=3&seed=1";
  config.train.epochs = 1;
  config.train.metrics = {"rfid"};
  testing::internal::CaptureStderr();
  const auto evaluation = train(config, run_);
  const auto said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("weights      inception: official values"), std::string::npos) << said;
  EXPECT_GT(evaluation.at("fid"), 0);
  EXPECT_EQ(lines_of_kind(run_, "eval").back().at("fid").get<double>(), evaluation.at("fid"));
}

TEST_F(TrainerTest, MetricsThatCannotBeMeasuredAreRefusedAtTheStart) {
  const WeightsStore store;
  const auto error = [&](std::vector<std::string> metrics) {
    auto config = tiny_config();
    config.train.metrics = std::move(metrics);
    return error_of([&] { train(config, run_); });
  };
  EXPECT_TRUE(error({"psnr", "simm"})
                  .starts_with("train.metrics: unknown metric 'simm'; did you mean 'ssim'?"));
  EXPECT_NE(error({"lpips"}).find("nsvq weights"), std::string::npos);
  EXPECT_NE(error({"fid"}).find("train.metrics: "), std::string::npos);
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

TEST_F(TrainerTest, TheDiscriminatorRestsInTheWarmUpAndIsRampedUpAfterIt) {
  auto config = tiny_config();
  config.adversarial = {.weight = 0.5, .start_step = 2, .width = 4, .layers = 1};
  config.schedule.ramp_epochs = 1;
  config.checkpoint.keep = 100;
  train(config, run_);
  std::vector<double> weights;
  for (const auto& line : lines_of_kind(run_, "step")) {
    weights.push_back(line.contains("generator") ? line.at("adversarial_weight").get<double>() : 0);
    EXPECT_EQ(line.contains("discriminator"), line.contains("generator"));
  }
  std::vector<double> expected = {0, 0};                    // before start_step
  expected.insert(expected.end(), 7, 0.5);                  // stage 1
  expected.insert(expected.end(), 3, 0);                    // warm-up
  expected.insert(expected.end(), {0.5 / 3, 1. / 3, 0.5});  // the ramp
  expected.insert(expected.end(), 3, 0.5);                  // stage 2
  ASSERT_EQ(weights.size(), expected.size());
  for (size_t i = 0; i < weights.size(); ++i) EXPECT_NEAR(weights[i], expected[i], 1e-6) << i;

  const auto weights_at = [&](int64_t step) {
    return read_safetensors(run_ / "checkpoints" / fmt::format("step-{}", step) /
                            "training.safetensors")
        .tensors;
  };
  const auto before = weights_at(9), rested = weights_at(12), after = weights_at(18);
  int seen = 0;
  for (const auto& [name, tensor] : rested) {
    if (!name.starts_with("discriminator.")) continue;
    ++seen;
    EXPECT_TRUE(at::equal(tensor, before.at(name))) << name;
  }
  EXPECT_GT(seen, 5);
  EXPECT_FALSE(at::equal(after.at("discriminator.model.main.0.weight"),
                         rested.at("discriminator.model.main.0.weight")));
}

TEST_F(TrainerTest, PhasesCanBeLeftOutAndReordered) {
  const std::vector<std::vector<std::string>> schedules = {{"stage1"},
                                                           {"stage1", "warmup"},
                                                           {"stage1", "stage2"},
                                                           {"stage2", "warmup", "stage1"},
                                                           {"warmup", "stage1"}};
  for (const auto& phases : schedules) {
    auto config = tiny_config();
    config.schedule.phases = phases;
    config.schedule.stage2_epochs = phases.back() == "stage2" ? 0 : 1;
    const auto run = folder_.path() / fmt::format("{}", fmt::join(phases, "-"));
    train(config, run);
    std::vector<std::string> seen;
    for (const auto& line : lines_of_kind(run, "phase")) seen.push_back(line.at("phase"));
    EXPECT_EQ(seen, phases);
  }
}

TEST_F(TrainerTest, DriftIsMeasuredAndStopsWithTheEncoder) {
  auto config = tiny_config();
  config.drift = {.every_steps = 1, .images = 4};
  train(config, run_);
  const auto lines = lines_of_kind(run_, "drift");
  ASSERT_EQ(lines.size(), 19u);
  EXPECT_FALSE(lines[0].contains("drift"));
  for (size_t step = 1; step <= 9; ++step) EXPECT_GT(lines[step].at("drift"), 0) << step;
  for (size_t step = 10; step <= 18; ++step) EXPECT_EQ(lines[step].at("drift"), 0) << step;
  EXPECT_GT(lines[5].at("latent_norm"), 0);
  EXPECT_GE(lines[5].at("neighbours"), 1);
}

}  // namespace
}  // namespace nsvq
