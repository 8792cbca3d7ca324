#include "nsvq/train/trainer.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "nsvq/core/error.h"
#include "nsvq/io/file.h"
#include "nsvq/io/safetensors.h"
#include "nsvq/train/setup.h"
#include "tests/temporary_folder.h"
#include "tests/train/tiny.h"

namespace nsvq {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::vector<json> lines_of_kind(const fs::path& run, const std::string& kind) {
  std::ifstream in(run / "metrics.jsonl");
  std::vector<json> lines;
  for (std::string text; std::getline(in, text);) {
    auto line = json::parse(text);
    if (line.at("kind") == kind) lines.push_back(line);
  }
  return lines;
}

std::map<std::string, double> train(const Config& config, const fs::path& run) {
  prepare_torch(config);
  return Trainer(config, run, make_group()).train();
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
  EXPECT_EQ(phases, (std::vector<std::string>{"stage1@0", "warmup@3", "stage2@4"}));

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

TEST_F(TrainerTest, EveryQuantizerAndInitialisationTrains) {
  for (const auto& kind : quantizer_kinds()) {
    for (const auto* init : {"gaussian", "uniform", "data"}) {
      auto config = tiny_config();
      config.quantizer.type = kind.name;
      config.quantizer.init = init;
      config.train.epochs = 2;
      const auto run = folder_.path() / (kind.name + init);
      EXPECT_GT(train(config, run).at("psnr"), 3) << kind.name << " " << init;
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
  prepare_torch(config);
  Trainer trainer(config, run_, make_group());
  std::vector<std::string> seen;
  trainer.on_step([&](const Progression& at) { seen.push_back(fmt::format("s{}", at.step)); });
  trainer.on_epoch([&](const Progression& at) { seen.push_back(fmt::format("e{}", at.epoch)); });
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
  const auto at = load_progression(run_ / "checkpoints/step-8");
  EXPECT_EQ(at.epoch, 2);
  EXPECT_EQ(at.batch, 2);
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
  }
}

}  // namespace
}  // namespace nsvq
