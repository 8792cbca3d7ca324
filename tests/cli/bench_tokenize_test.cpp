#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "nsvq/core/temporary_folder.h"
#include "nsvq/io/files/file.h"
#include "nsvq/recipe/tokenizer_config.h"
#include "tests/cli/model_file.h"
#include "tests/cli/run.h"
#include "tests/train/tiny.h"

namespace nsvq {
namespace {

TEST(BenchTokenize, TimesAModelOnResidentImages) {
  const TemporaryFolder folder;
  const auto model = (folder / "model.safetensors").string(), out = (folder / "t.json").string();
  write_model_file(model, tiny_config());
  const auto result =
      run({"bench", "tokenize", model, "--device", "cpu", "--rounds", "1", "--json", out});
  ASSERT_EQ(result.code, 0) << result.error;
  expect_contains(result.out, {"batch 8", "images/s", "decoded from resident tokens", "| encoder |",
                               "| search |"});
  std::ifstream file(out);
  const auto json = nlohmann::json::parse(file);
  EXPECT_GT(json.at("images_per_second").get<double>(), 0);
  EXPECT_GT(json.at("decode").at("images_per_second").get<double>(), 0);
  EXPECT_GT(json.at("decode").at("peak_gib").get<double>(), 0);
  EXPECT_FALSE(json.contains("data"));
}

TEST(BenchTokenize, TimesARecipeOnImagesOfASource) {
  const TemporaryFolder folder;
  const auto recipe = (folder / "tiny.yaml").string(), out = (folder / "t.json").string();
  write_text(recipe, to_yaml(tiny_config()));
  const auto result = run({"bench", "tokenize", recipe, "model.width=4", "--data",
                           "builtin:dead-leaves?size=20&count=23", "--limit", "17", "--batch-size",
                           "4", "--rounds", "1", "--json", out});
  ASSERT_EQ(result.code, 0) << result.error;
  expect_contains(result.out,
                  {"batch 4", "| loader (", "| loader and encoder |", "| writing |", "17 images"});
  std::ifstream file(out);
  const auto json = nlohmann::json::parse(file);
  EXPECT_EQ(json.at("data").at("images").get<int>(), 17);
  EXPECT_GT(json.at("data").at("images_per_second").get<double>(), 0);
  EXPECT_GT(json.at("parts").at("loader").get<double>(), 0);
}

TEST(BenchTokenize, RefusesWhatItCannotUse) {
  expect_failure(run({"bench", "tokenize", "none.yaml"}), 2, {"none.yaml"});
  expect_failure(run({"bench", "tokenize", "none"}), 2, {"none"});
  const TemporaryFolder folder;
  const auto model = (folder / "model.safetensors").string();
  write_model_file(model, tiny_config());
  expect_failure(run({"bench", "tokenize", model, "model.width=4"}), 2,
                 {"model.width=4", "recipe"});
}

}  // namespace
}  // namespace nsvq
