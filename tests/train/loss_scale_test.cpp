#include "nsvq/train/loss_scale.h"

#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

namespace nsvq {
namespace {

TEST(LossScale, LeavesGradientsAsTheyAre) {
  torch::manual_seed(0);
  torch::nn::Linear layer(3, 2);
  const auto input = at::randn({4, 3});
  const auto loss = [&] { return layer->forward(input).square().sum(); };
  LossScale(Precision::fp32).backward(loss(), *layer);
  const auto expected = layer->weight.grad().clone();
  layer->zero_grad();
  LossScale(Precision::fp16).backward(loss(), *layer);
  EXPECT_TRUE(at::allclose(layer->weight.grad(), expected));
}

TEST(LossScale, HalvesAtOverflowsAndDoublesAfterManySteps) {
  LossScale scale(Precision::fp16);
  const double first = scale.factor();
  EXPECT_TRUE(scale.shrink());
  EXPECT_EQ(scale.factor(), first / 2);
  for (int i = 0; i < 1999; ++i) scale.step_taken();
  EXPECT_EQ(scale.factor(), first / 2);
  scale.step_taken();
  EXPECT_EQ(scale.factor(), first);
  while (scale.factor() > 1) EXPECT_TRUE(scale.shrink());
  EXPECT_FALSE(scale.shrink()) << "no smaller factor cures it";
}

TEST(LossScale, OtherPrecisionsHaveNone) {
  for (const auto precision : {Precision::fp32, Precision::tf32, Precision::bf16}) {
    LossScale scale(precision);
    EXPECT_EQ(scale.factor(), 1);
    EXPECT_FALSE(scale.shrink());
    EXPECT_TRUE(scale.state().empty());
  }
}

TEST(LossScale, GoesOnFromItsState) {
  LossScale scale(Precision::fp16), other(Precision::fp16);
  scale.shrink();
  for (int i = 0; i < 1500; ++i) scale.step_taken();
  other.load(scale.state());
  for (int i = 0; i < 500; ++i) other.step_taken();
  EXPECT_EQ(other.factor(), 2 * scale.factor());
}

}  // namespace
}  // namespace nsvq
