// Generators against the PyTorch modules of golden/generators.py, which also made
// golden/generators.json.

#include <gtest/gtest.h>

#include <fstream>

#include "nsvq/generation/generator.h"
#include "nsvq/nn/layers.h"
#include "tests/nn/golden.h"

namespace nsvq {
namespace {

using nlohmann::json;

GeneratorConfig config_of(const json& golden) {
  GeneratorConfig config;
  config.family = golden.at("family");
  const auto& settings = golden.at("config");
  settings.at("width").get_to(config.width);
  settings.at("depth").get_to(config.depth);
  settings.at("heads").get_to(config.heads);
  settings.at("hidden").get_to(config.hidden);
  settings.at("label_dropout").get_to(config.label_dropout);
  settings.at("registers").get_to(config.registers);
  config.dropout = 0;
  return config;
}

GridShape grid_of(const json& golden) {
  const auto& grid = golden.at("grid");
  return {grid.at("height"), grid.at("width"), grid.at("codes"), grid.at("classes")};
}

TokenImages images_of(const json& golden, const GridShape& grid) {
  const auto numbers = [&](const char* key) {
    return at::tensor(golden.at(key).get<std::vector<int64_t>>(), at::kLong);
  };
  TokenImages images;
  images.tokens = numbers("tokens").view({-1, grid.positions()});
  if (grid.classes > 0) images.labels = numbers("labels");
  images.seeds = numbers("seeds");
  images.progress = at::full({}, golden.at("progress").get<double>(), at::kFloat);
  return images;
}

void check_generator_case(const json& golden, const Mode& mode) {
  const auto grid = grid_of(golden);
  const auto generator = make_generator(config_of(golden), grid);
  generator->to(mode.dtype);
  fill_golden(*generator, "generator.");
  const auto losses = generator->loss(images_of(golden, grid), /*training=*/true);
  const auto expected = golden.at("losses").get<std::vector<double>>();
  ASSERT_EQ(losses.numel(), std::ssize(expected));
  for (int64_t i = 0; i < losses.numel(); ++i) {
    EXPECT_NEAR(losses[i].item<double>(), expected[i], mode.output_tolerance * expected[i]);
  }
  (losses * draw_golden("loss", losses.sizes()).to(mode.dtype)).sum().backward();
  const auto parameters = generator->named_parameters();
  const auto& gradients = golden.at("gradients");
  EXPECT_EQ(parameters.size(), gradients.size());
  for (const auto& item : parameters) {
    ASSERT_TRUE(gradients.contains(item.key())) << "no parameter " << item.key() << " in PyTorch";
    expect_golden(item.value().grad(), gradients.at(item.key()), mode.gradient_tolerance,
                  item.key());
  }
}

TEST(GeneratorGolden, MatchesPyTorch) {
  std::ifstream file(NSVQ_TESTS_DIR "/golden/generators.json");
  const auto cases = json::parse(file);
  ASSERT_EQ(cases.size(), 6u);
  for (const auto& [name, golden] : cases.items()) {
    for (const auto& mode : {kModes[0], kModes[1]}) {
      SCOPED_TRACE(name + " " + mode.name);
      check_generator_case(golden, mode);
    }
  }
}

/// Parameters of a model of the paper, by the formula that a small model is counted by.
int64_t formula(const GeneratorConfig& config, const GridShape& grid) {
  const int64_t w = config.width, places = grid.positions(), codes = grid.codes;
  const int64_t inner = config.heads * (w / config.heads);
  const int64_t modulations = 6 * w * w + 6 * w;
  if (config.family == "rar") {
    const int64_t hidden = config.hidden > 0 ? config.hidden : 4 * w;
    const int64_t attention = 4 * w * w + 4 * w + 4 * (w / config.heads);
    const int64_t block = attention + 2 * w * hidden + hidden + w + 4 * w + modulations;
    const int64_t tables = codes + 1 + grid.classes + 1 + 2 * (places + 1024) + places + 100 + 1;
    return config.depth * block + tables * w + 2 * w * w + 2 * w + codes * w + codes;
  }
  const int64_t rounded = (8 * w / 3 + 255) / 256 * 256;
  const int64_t hidden = config.hidden > 0 ? config.hidden : rounded;
  const int64_t block = 4 * w * inner + 3 * w * hidden + 2 * w;
  if (config.family == "ar") {
    return config.depth * block + (2 * codes + grid.classes + 1) * w + w;
  }
  const int64_t tables = codes + 1 + grid.classes + 1 + places + config.registers;
  return config.depth * (block + modulations) + tables * w + 2 * w + 2 * w * w + 2 * w + codes + 1;
}

TEST(GeneratorParameters, AreThoseOfThePapers) {
  GeneratorConfig config;
  GridShape grid{3, 5, 11, 7};
  for (const auto& kind : generator_kinds()) {
    config = {.family = kind.name, .width = 24, .depth = 3, .heads = 3, .registers = 2};
    EXPECT_EQ(parameter_count(*make_generator(config, grid)), formula(config, grid)) << kind.name;
    config.hidden = 10;
    EXPECT_EQ(parameter_count(*make_generator(config, grid)), formula(config, grid)) << kind.name;
  }
  const auto paper = [](const char* family, int64_t width, int64_t depth, int64_t heads,
                        int64_t codes, int64_t hidden = 0) {
    const GeneratorConfig of_paper{
        .family = family, .width = width, .depth = depth, .heads = heads, .hidden = hidden};
    return formula(of_paper, {16, 16, codes, 1000});
  };
  EXPECT_EQ(paper("ar", 768, 12, 12, 16384), 110'888'448);
  EXPECT_EQ(paper("ar", 1024, 24, 16, 16384), 342'910'976);
  EXPECT_EQ(paper("ar", 1280, 36, 20, 16384), 774'699'520);
  EXPECT_EQ(paper("ar", 1536, 48, 24, 16384), 1'410'972'672);
  EXPECT_EQ(paper("ar", 3200, 24, 32, 16384), 3'096'659'200);
  // Halton-MaskGIT T, S, B, L and XL, and RAR B, L, XL and XXL, as their authors' classes count.
  EXPECT_EQ(paper("masked", 384, 6, 6, 16384), 23'031'425);
  EXPECT_EQ(paper("masked", 512, 12, 6, 16384), 69'344'769);
  EXPECT_EQ(paper("masked", 768, 12, 12, 16384), 142'224'641);
  EXPECT_EQ(paper("masked", 1024, 24, 16, 16384), 479'656'961);
  EXPECT_EQ(paper("masked", 1152, 28, 16, 16384), 692'118'401);
  EXPECT_EQ(paper("rar", 768, 24, 16, 1024), 260'923'648);
  EXPECT_EQ(paper("rar", 1024, 24, 16, 1024), 461'668'352);
  EXPECT_EQ(paper("rar", 1280, 32, 16, 1024), 955'425'024);
  EXPECT_EQ(paper("rar", 1408, 40, 16, 1024, 6144), 1'498'520'704);
}

}  // namespace
}  // namespace nsvq
