#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "nsvq/core/temporary_folder.h"
#include "nsvq/io/files/file.h"
#include "nsvq/recipe/tokenizer_config.h"
#include "tests/cli/run.h"
#include "tests/train/tiny.h"

namespace nsvq {
namespace {

TEST(BenchStep, TimesTheStepAndItsParts) {
  const TemporaryFolder folder;
  auto config = tiny_config();
  config.adversarial.weight = 0.1;
  config.adversarial.layers = 1;
  const auto recipe = (folder / "tiny.yaml").string(), out = (folder / "step.json").string();
  write_text(recipe, to_yaml(config));
  const auto result = run({"bench", "step", recipe, "--rounds", "1", "--json", out});
  ASSERT_EQ(result.code, 0) << result.error;
  expect_contains(result.out,
                  {"images/s", "| encoder |", "| discriminator |", "| optimizer and average |"});
  std::ifstream file(out);
  const auto json = nlohmann::json::parse(file);
  EXPECT_GT(json.at("images_per_second").get<double>(), 0);
  EXPECT_GT(json.at("parts").at("quantizer").get<double>(), 0);
}

TEST(BenchStep, RefusesWhatTrainRefuses) {
  expect_failure(run({"bench", "step", "none.yaml"}), 2, {"none.yaml"});
  const TemporaryFolder folder;
  const auto recipe = (folder / "tiny.yaml").string();
  write_text(recipe, to_yaml(tiny_config()));
  expect_failure(run({"bench", "step", recipe, "--phase", "stage9"}), 2, {"stage9", "warmup"});
}

TEST(BenchStep, TimesOtherPhasesAndTheLoader) {
  const TemporaryFolder folder;
  const auto recipe = (folder / "tiny.yaml").string(), out = (folder / "step.json").string();
  write_text(recipe, to_yaml(tiny_config()));
  const auto result =
      run({"bench", "step", recipe, "train.batch_size=2", "--rounds", "1", "--phase", "warmup",
           "--step-only", "--json", out, "--data", "builtin:dead-leaves?size=16&count=8"});
  ASSERT_EQ(result.code, 0) << result.error;
  std::ifstream file(out);
  const auto json = nlohmann::json::parse(file);
  EXPECT_GT(json.at("loading").at("loader_milliseconds").get<double>(), 0);
  EXPECT_FALSE(json.contains("parts"));
}

}  // namespace
}  // namespace nsvq
