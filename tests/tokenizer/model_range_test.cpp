// model.range: pixels as the networks see and make them.
#include <gtest/gtest.h>

#include "nsvq/tokenizer/tokenizer.h"

namespace nsvq {
namespace {

TokenizerConfig small(const std::string& range, const std::string& colors) {
  TokenizerConfig config;
  config.model.width = 8;
  config.model.multipliers = {1, 2};
  config.model.blocks = 1;
  config.model.latent_dim = 4;
  config.model.range = range;
  config.model.colors = colors;
  config.quantizer.codes = 16;
  return config;
}

TEST(ModelRange, UnitNetworksSeeAndMakePixelsFrom0To1) {
  const torch::NoGradGuard no_grad;
  auto tokenizer = make_tokenizer(small("unit", "rgb"), at::kCPU);
  const auto images = at::rand({2, 3, 8, 12}) * 2 - 1, latents = at::randn({2, 4, 4, 6});
  const auto seen = (images + 1) / 2;
  EXPECT_TRUE(at::equal(tokenizer->to_latents(images), tokenizer->encoder->forward(seen)));
  EXPECT_TRUE(
      at::equal(tokenizer->to_images(latents), tokenizer->decoder->forward(latents) * 2 - 1));
}

TEST(ModelRange, SymmetricNetworksSeeAndMakePixelsAsTheyAre) {
  const torch::NoGradGuard no_grad;
  auto tokenizer = make_tokenizer(small("symmetric", "rgb"), at::kCPU);
  const auto images = at::rand({1, 3, 4, 4}) * 2 - 1, latents = at::randn({1, 4, 2, 2});
  EXPECT_TRUE(at::equal(tokenizer->to_latents(images), tokenizer->encoder->forward(images)));
  EXPECT_TRUE(at::equal(tokenizer->to_images(latents), tokenizer->decoder->forward(latents)));
}

TEST(ModelRange, OpponentColorsAreThoseOfUnitPixels) {
  const torch::NoGradGuard no_grad;
  auto tokenizer = make_tokenizer(small("unit", "opponent"), at::kCPU);
  const auto images = at::rand({1, 3, 4, 4}) * 2 - 1, latents = at::randn({1, 4, 2, 2});
  const auto seen = to_opponent_colors((images + 1) / 2);
  EXPECT_TRUE(at::equal(tokenizer->to_latents(images), tokenizer->encoder->forward(seen)));
  const auto made = from_opponent_colors(tokenizer->decoder->forward(latents));
  EXPECT_TRUE(at::equal(tokenizer->to_images(latents), made * 2 - 1));
}

}  // namespace
}  // namespace nsvq
