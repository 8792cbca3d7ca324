#include "nsvq/tokenizer/tokenizer.h"

#include <gtest/gtest.h>

namespace nsvq {
namespace {

TEST(OpponentColors, BackAndForthIsTheImage) {
  torch::manual_seed(0);
  for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
    const auto images = (at::rand({2, 3, 5, 4}) * 2 - 1).contiguous(format);
    const auto opponent = to_opponent_colors(images);
    EXPECT_TRUE(opponent.is_contiguous(format));
    EXPECT_LT((from_opponent_colors(opponent) - images).abs().max().item<double>(), 1e-6);
  }
}

TEST(OpponentColors, GreyIsBrightnessAlone) {
  const auto grey = at::full({1, 3, 2, 2}, 0.25);
  const auto opponent = to_opponent_colors(grey);
  EXPECT_LT((opponent.select(1, 0) - 0.25).abs().max().item<double>(), 1e-6);
  EXPECT_LT(opponent.slice(1, 1).abs().max().item<double>(), 1e-6);
}

TEST(OpponentColors, GradientsPass) {
  const auto images = at::rand({1, 3, 2, 2}).requires_grad_();
  from_opponent_colors(to_opponent_colors(images)).sum().backward();
  EXPECT_LT((images.grad() - 1).abs().max().item<double>(), 1e-5);
}

}  // namespace
}  // namespace nsvq
