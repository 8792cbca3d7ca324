#include "nsvq/generation/config.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "nsvq/generation/generator.h"
#include "nsvq/settings/yaml.h"
#include "nsvq/train/steps/adam.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/generation/tiny_generation.h"

namespace nsvq {
namespace {

namespace fs = std::filesystem;

const fs::path kGenerateRecipes = fs::path(NSVQ_TESTS_DIR) / "../../configs/generate";

TEST(GenerationConfig, EveryRecipeCanTrain) {
  int recipes = 0;
  for (const auto& entry : fs::directory_iterator(kGenerateRecipes)) {
    SCOPED_TRACE(entry.path());
    const auto config = load_config<GenerationConfig>(entry.path().string());
    const GridShape grid{16, 16, 1024, config.classes};
    check_generator(config.generator, grid);
    check_sampling(config.sampling, config.generator, grid);
    auto small = config.generator;
    small.width = 32;
    small.depth = 1;
    small.heads = 2;
    // Names that weight decay leaves alone are those of the network.
    Adam(named_parameters(*make_generator(small, grid)), config.optimizer);
    ++recipes;
  }
  EXPECT_EQ(recipes, 6);
}

TEST(GenerationConfig, ComesBackFromItsText) {
  auto config = tiny_generation_config("tokenizer", "rar");
  config.classes = 3;
  config.sampling.guidance = 2.5;
  config.val_token_classes = "classes.txt";
  config.val_tokens = "val.npy";
  const auto read = parse_config<GenerationConfig>(to_yaml(config), "text");
  EXPECT_EQ(to_yaml(read), to_yaml(config));
  EXPECT_EQ(kind_of_settings(parse_yaml(to_yaml(config), "text")), RunKind::generator);
}

TEST(GenerationConfig, SectionsOfOthersAreNamed) {
  GenerationConfig config;
  expect_contains(error_of([&] { option_table(config).load("", {"unet.width=3"}); }),
                  {"latent diffusion (nsvq diffusion)"});
  expect_contains(error_of([&] { option_table(config).load("", {"quantizer.codes=3"}); }),
                  {"a tokenizer (nsvq train)"});
}

TEST(GenerationConfig, ShortWordsGetTheirSection) {
  EXPECT_EQ(
      with_sections({"tokens=a=b", "tokenizer=runs/x", "seed=3", "generator.tokens=c", "tokens",
                     "family=ar"}),
      (std::vector<std::string>{"generator.tokens=a=b", "generator.tokenizer=runs/x", "seed=3",
                                "generator.tokens=c", "tokens", "generator.family=ar"}));
}

/// All rows of generator.* decide the weights, but for those of training and of data.
TEST(GenerationConfig, KnowsWhichSettingsDecideTheWeights) {
  for (const auto* key : {"generator.family", "generator.width", "generator.heads",
                          "generator.classes", "generator.codes"}) {
    EXPECT_TRUE(decides_generator(key)) << key;
  }
  for (const auto* key : {"generator.tokens", "generator.tokenizer", "generator.dropout",
                          "sampling.guidance", "optimizer.lr", "data.size"}) {
    EXPECT_FALSE(decides_generator(key)) << key;
  }
}

}  // namespace
}  // namespace nsvq
