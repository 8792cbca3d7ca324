// The recipes of 256x256 pixels: token grids and numbers of parameters at all scales.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "nsvq/core/temporary_folder.h"
#include "nsvq/experiments/plan/make_plan.h"
#include "nsvq/nn/features/lpips_nets.h"
#include "nsvq/nn/features/resnet50.h"
#include "nsvq/nn/layers.h"
#include "nsvq/recipe/tokenizer_config.h"
#include "nsvq/tokenizer/tokenizer.h"
#include "tests/weights_store.h"

namespace nsvq {
namespace {

int64_t conv(int64_t inputs, int64_t outputs, int64_t side) {
  return inputs * outputs * side * side;
}

int64_t conv_with_bias(int64_t inputs, int64_t outputs, int64_t side) {
  return conv(inputs, outputs, side) + outputs;
}

int64_t norm(int64_t channels) { return 2 * channels; }

int64_t block(int64_t inputs, int64_t outputs) {
  return norm(inputs) + conv(inputs, outputs, 3) + norm(outputs) + conv(outputs, outputs, 3) +
         (inputs == outputs ? 0 : conv(inputs, outputs, 1));
}

int64_t attention(int64_t channels) {
  return norm(channels) + 4 * conv_with_bias(channels, channels, 1);
}

/// Blocks of one level without attention.
int64_t level(int64_t inputs, int64_t outputs, int64_t blocks) {
  return block(inputs, outputs) + (blocks - 1) * block(outputs, outputs);
}

int64_t middle(const ModelConfig& model, int64_t channels) {
  return 2 * block(channels, channels) + (model.mid_attention ? attention(channels) : 0);
}

/// By the sizes of the layers alone: a strided convolution between levels.
int64_t encoder_parameters(const ModelConfig& model) {
  int64_t count = conv(3, model.width, 3), channels = model.width;
  for (size_t i = 0; i < model.multipliers.size(); ++i) {
    const int64_t outputs = model.width * model.multipliers[i];
    count += level(channels, outputs, model.blocks);
    if (i + 1 < model.multipliers.size()) count += conv_with_bias(outputs, outputs, 3);
    channels = outputs;
  }
  return count + middle(model, channels) + norm(channels) +
         conv_with_bias(channels, model.latent_dim, 1);
}

/// A convolution to four times the channels between levels, for depth-to-space.
int64_t decoder_parameters(const ModelConfig& model) {
  int64_t channels = model.width * model.multipliers.back();
  int64_t count = conv_with_bias(model.latent_dim, channels, 3) + middle(model, channels);
  for (size_t i = model.multipliers.size(); i-- > 0;) {
    const int64_t outputs = model.width * model.multipliers[i];
    count += level(channels, outputs, model.blocks);
    if (i > 0) count += conv_with_bias(outputs, 4 * outputs, 3);
    channels = outputs;
  }
  return count + norm(channels) + conv_with_bias(channels, 3, 3);
}

class Resolution256 : public testing::TestWithParam<std::string> {};

TEST_P(Resolution256, HasTheGridAndTheNumbersOfParametersOfItsSizes) {
  const TemporaryFolder folder;
  WeightsStore store;
  store.add("vgg16", Vgg16());
  store.add("resnet50", ResNet50());
  const auto file =
      std::filesystem::path(NSVQ_TESTS_DIR) / "../../configs/experiments/resolution-256.yaml";
  const std::vector<Experiment> experiments = {read_experiment(file)};
  PlanOptions options;
  options.scale = GetParam();
  options.out = folder / "out";
  const auto plan = make_plan(experiments, options);
  const bool full = GetParam() == "paper" || GetParam() == "gpu";
  EXPECT_EQ(plan.experiments[0].rows.size(), full ? 5u : 3u);
  for (const auto& row : plan.experiments[0].rows) {
    SCOPED_TRACE(row.name);
    const auto config = parse_config(plan.runs[row.runs[0]].recipe, row.name);
    if (full) {
      EXPECT_EQ(config.data.size, 256);
      EXPECT_EQ(config.model.multipliers, (std::vector<int64_t>{1, 1, 2, 2, 4}));
      EXPECT_EQ(config.data.size / config.model.stride(), 16);
      EXPECT_EQ(config.quantizer.codes, 65536);
    }
    // One row of the large sizes: the networks are alike but for the quantizer.
    if (full && row.name != "nsvq") continue;
    Tokenizer model(config);
    EXPECT_EQ(parameter_count(*model->encoder), encoder_parameters(config.model));
    EXPECT_EQ(parameter_count(*model->decoder), decoder_parameters(config.model));
  }
}

INSTANTIATE_TEST_SUITE_P(Scales, Resolution256, testing::Values("paper", "gpu", "cpu", "test"));

}  // namespace
}  // namespace nsvq
