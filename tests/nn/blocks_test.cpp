#include "nsvq/nn/blocks.h"

#include <gtest/gtest.h>
#include <torch/nn/modules/normalization.h>
#include <torch/types.h>

#include <cmath>

#include "nsvq/nn/layers.h"

namespace nsvq {
namespace {

TEST(Layers, NormGroupsDivideTheChannels) {
  const auto groups = [](int64_t channels) { return make_norm(channels)->options.num_groups(); };
  EXPECT_EQ(groups(128), 32);
  EXPECT_EQ(groups(32), 32);
  EXPECT_EQ(groups(24), 6);
  EXPECT_EQ(groups(48), 12);
  EXPECT_EQ(groups(31), 1);
  EXPECT_EQ(groups(37), 1);
  EXPECT_EQ(groups(12), 3);
  EXPECT_EQ(groups(1), 1);
  EXPECT_EQ(make_norm(64)->options.eps(), 1e-6);
}

TEST(Layers, DepthToSpaceIsInDcrOrder) {
  const int64_t b = 2, c = 3, h = 1, w = 5;
  const auto x = torch::arange(b * 4 * c * h * w).reshape({b, 4 * c, h, w});
  for (const auto format : {torch::MemoryFormat::Contiguous, torch::MemoryFormat::ChannelsLast}) {
    const auto y = depth_to_space(x.contiguous(format));
    ASSERT_EQ(y.sizes(), (torch::IntArrayRef{b, c, 2 * h, 2 * w}));
    EXPECT_TRUE(y.is_contiguous(format));
    for (int64_t i = 0; i < y.numel(); ++i) {
      const int64_t column = i % (2 * w), row = i / (2 * w) % (2 * h);
      const int64_t channel = i / (4 * h * w) % c, image = i / (4 * h * w * c);
      const int64_t source = ((row % 2) * 2 + column % 2) * c + channel;
      ASSERT_EQ(y[image][channel][row][column].item<int64_t>(),
                x[image][source][row / 2][column / 2].item<int64_t>());
    }
  }
  EXPECT_THROW(depth_to_space(torch::zeros({1, 6, 2, 2})), c10::Error);
}

/// Compares the gradient of a random projection of `module`'s output with central differences along
/// a random direction, for the input and each parameter.
template <typename Module>
void check_gradients(Module& module, torch::Tensor x) {
  module.to(torch::kDouble);
  x = x.to(torch::kDouble).requires_grad_();
  torch::Tensor weights;
  const auto loss = [&] {
    const auto y = module.forward(x);
    if (!weights.defined()) weights = torch::randn_like(y);
    return (y * weights).sum();
  };
  loss().backward();

  auto inputs = module.parameters();
  inputs.push_back(x);
  const torch::NoGradGuard no_grad;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto direction = torch::randn_like(inputs[i]);
    const double step = 1e-6;
    inputs[i].add_(direction, step);
    const double above = loss().template item<double>();
    inputs[i].add_(direction, -2 * step);
    const double below = loss().template item<double>();
    inputs[i].add_(direction, step);
    const double expected = (above - below) / (2 * step);
    const double actual = (inputs[i].grad() * direction).sum().template item<double>();
    EXPECT_NEAR(actual, expected, 1e-7 * (1 + std::abs(expected))) << "input " << i;
  }
}

TEST(Blocks, ResBlockGradientsMatchDifferences) {
  torch::manual_seed(1);
  ResBlockImpl same(6, 6), wider(6, 9);
  check_gradients(same, torch::randn({2, 6, 3, 5}));
  check_gradients(wider, torch::randn({1, 6, 1, 4}));
}

TEST(Blocks, AttentionGradientsMatchDifferences) {
  torch::manual_seed(2);
  AttentionImpl attention(6), single(4);
  check_gradients(attention, torch::randn({2, 6, 3, 5}));
  check_gradients(single, torch::randn({1, 4, 1, 1}));
}

TEST(Blocks, AttentionMixesWithinAnImageOnly) {
  torch::manual_seed(3);
  const torch::NoGradGuard no_grad;
  AttentionImpl attention(8);
  const auto x = torch::randn({2, 8, 3, 3});
  auto changed = x.clone();
  changed[1] += 1 + torch::randn({8, 3, 3});
  const auto before = attention.forward(x), after = attention.forward(changed);
  EXPECT_TRUE(torch::equal(before[0], after[0]));
  EXPECT_FALSE(torch::allclose(before[1], after[1]));
}

}  // namespace
}  // namespace nsvq
