// What the phases train, measure and leave alone.

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <cmath>

#include "nsvq/io/formats/safetensors.h"
#include "nsvq/recipe/tokenizer_config.h"
#include "nsvq/runs/layout/layout.h"
#include "nsvq/tokenizer/open_model.h"
#include "tests/train/run_traces.h"
#include "tests/train/tiny.h"
#include "tests/train/trainer_fixture.h"

namespace nsvq {
namespace {

namespace fs = std::filesystem;

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

TEST_F(TrainerTest, TheLastPhaseLastsUntilTheBudgetIsSpent) {
  auto config = tiny_config();
  config.schedule.phases = {"stage1"};
  config.train.epochs = 5;
  train(config, run_);
  EXPECT_EQ(lines_of_kind(run_, "phase").size(), 1u);
  EXPECT_EQ(lines_of_kind(run_, "epoch").back().at("phase"), "stage1");
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
  for (const std::string name : {"latents", "codes"}) {
    const auto& shares = lines[5].at(name + "_spectrum");
    ASSERT_EQ(shares.size(), 8u) << name;
    double squares = 0;
    for (const double share : shares) squares += share * share;
    EXPECT_NEAR(lines[5].at(name + "_participation").get<double>(), 1 / squares, 1e-9) << name;
  }
}

TensorMap training_tensors(const fs::path& run) {
  return read_safetensors(list_checkpoints(run).back() / "training.safetensors").tensors;
}

/// The drift lines' figures of the straight-through gap, taken from lines of metrics.jsonl.
std::vector<std::pair<double, double>> take_gaps(std::vector<nlohmann::json>& lines) {
  std::vector<std::pair<double, double>> gaps;
  for (auto& line : lines) {
    if (!line.contains("ste_gap")) continue;
    gaps.emplace_back(line.at("ste_gap"), line.at("ste_cosine"));
    line.erase("ste_gap");
    line.erase("ste_cosine");
  }
  return gaps;
}

/// Levels that are computed anew in the backward pass would add to gradients.
TEST_F(TrainerTest, MeasurementsOfDriftDoNotChangeTraining) {
  auto config = tiny_config();
  config.train.epochs = 4;
  for (const bool recompute : {false, true}) {
    SCOPED_TRACE(recompute);
    const auto folder = folder_ / (recompute ? "recompute" : "plain");
    config.train.recompute = recompute;
    config.drift = {.every_steps = 1, .images = 0};
    train(config, folder / "none");
    config.drift.images = 4;
    train(config, folder / "measured");
    config.drift.ste_gap = true;
    train(config, folder / "gap");

    auto measured = training_tensors(folder / "measured");
    EXPECT_EQ(first_difference(training_tensors(folder / "gap"), measured), "");
    std::erase_if(measured, [](const auto& one) { return one.first.starts_with("drift."); });
    EXPECT_EQ(first_difference(training_tensors(folder / "none"), measured), "");

    auto lines = timeless_metrics(folder / "gap");
    const auto gaps = take_gaps(lines);
    EXPECT_EQ(first_difference(timeless_metrics(folder / "measured"), lines), "");
    ASSERT_EQ(gaps.size(), 13u);  // at the start and after each step
    for (const auto& [gap, cosine] : gaps) {
      EXPECT_GT(gap, 0);
      EXPECT_LE(std::abs(cosine), 1 + 1e-9);
    }
  }
}

TEST_F(TrainerTest, AnEpochsLineHasTheDirectionsThatWereMeasured) {
  const auto said = [&](const TokenizerConfig& config, const std::string& name) {
    testing::internal::CaptureStderr();
    train(config, folder_ / name);
    return testing::internal::GetCapturedStderr();
  };
  auto config = tiny_config();
  config.train.epochs = 1;
  const auto line = said(config, "codes");
  const auto measured = lines_of_kind(folder_ / "codes", "drift").back();
  EXPECT_NE(line.find(fmt::format("  participation {:.2f} (codes {:.2f})",
                                  measured.at("latents_participation").get<double>(),
                                  measured.at("codes_participation").get<double>())),
            std::string::npos)
      << line;
  config.drift.images = 0;
  EXPECT_EQ(said(config, "unmeasured").find("participation"), std::string::npos);
  config = tiny_config_of("none");
  config.train.epochs = 1;
  config.drift.ste_gap = true;
  const auto without_codes = said(config, "none");
  EXPECT_NE(without_codes.find("  participation "), std::string::npos) << without_codes;
  EXPECT_EQ(without_codes.find("(codes"), std::string::npos) << without_codes;
  EXPECT_FALSE(lines_of_kind(folder_ / "none", "drift").back().contains("ste_gap"));
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

TEST_F(TrainerTest, TheDiscriminatorRestsInTheWarmUpAndIsRampedUpAfterIt) {
  auto config = tiny_config();
  config.adversarial.weight = 0.5;
  config.adversarial.start_step = 2;
  config.adversarial.width = 4;
  config.adversarial.layers = 1;
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

}  // namespace
}  // namespace nsvq
