#include "nsvq/train/steps/loss_scale.h"

#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

namespace nsvq {
namespace {

const auto kBad = at::ones({}, at::kBool), kGood = at::zeros({}, at::kBool);

double factor_of(const LossScale& scale) { return scale.factor().item<double>(); }

TEST(LossScale, LeavesGradientsAsTheyAre) {
  torch::manual_seed(0);
  torch::nn::Linear layer(3, 2);
  const auto input = at::randn({4, 3});
  const auto loss = [&] { return layer->forward(input).square().sum(); };
  LossScale(Precision::fp32).backward(loss());
  const auto expected = layer->weight.grad().clone();
  layer->zero_grad();
  const LossScale scale(Precision::fp16);
  scale.backward(loss());
  scale.unscale(*layer);
  EXPECT_TRUE(at::allclose(layer->weight.grad(), expected));
}

TEST(LossScale, HalvesAtOverflowsAndDoublesAfterManySteps) {
  LossScale scale(Precision::fp16);
  const double first = factor_of(scale);
  EXPECT_TRUE(scale.can_shrink().item<bool>());
  scale.update(kBad);
  EXPECT_EQ(factor_of(scale), first / 2);
  for (int i = 0; i < 1999; ++i) scale.update(kGood);
  EXPECT_EQ(factor_of(scale), first / 2);
  scale.update(kGood);
  EXPECT_EQ(factor_of(scale), first);
  for (int i = 0; i < 16; ++i) scale.update(kBad);
  EXPECT_EQ(factor_of(scale), 1);
  EXPECT_FALSE(scale.can_shrink().item<bool>()) << "no smaller factor cures it";
  scale.update(kBad);
  EXPECT_EQ(factor_of(scale), 1);
}

TEST(LossScale, OtherPrecisionsHaveNone) {
  for (const auto precision : {Precision::fp32, Precision::tf32, Precision::bf16}) {
    LossScale scale(precision);
    scale.update(kBad);
    EXPECT_FALSE(scale.factor().defined());
    EXPECT_FALSE(scale.can_shrink().defined());
    EXPECT_TRUE(scale.state().empty());
  }
}

TEST(LossScale, GoesOnFromItsState) {
  LossScale scale(Precision::fp16), other(Precision::fp16);
  scale.update(kBad);
  for (int i = 0; i < 1500; ++i) scale.update(kGood);
  other.load(scale.state());
  for (int i = 0; i < 500; ++i) other.update(kGood);
  EXPECT_EQ(factor_of(other), 2 * factor_of(scale));
}

}  // namespace
}  // namespace nsvq
