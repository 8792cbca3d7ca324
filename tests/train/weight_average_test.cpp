#include "nsvq/train/steps/weight_average.h"

#include <gtest/gtest.h>

#include "nsvq/train/steps/adam.h"

namespace nsvq {
namespace {

/// Any module: a parameter [3, 2] and a buffer [3].
struct SmallModule : torch::nn::Module {
  torch::Tensor weight = register_parameter("weight", at::arange(6.).to(at::kFloat).view({3, 2}));
  torch::Tensor mean = register_buffer("mean", at::zeros({3}));
};

struct Averaged {
  std::shared_ptr<SmallModule> module = std::make_shared<SmallModule>(),
                               copy = std::make_shared<SmallModule>();
  WeightAverage average{module, copy, /*decay=*/0.75};
};

TEST(WeightAverage, FollowsTheOptimizersStepsUnlessTheyAreSkipped) {
  const Averaged all;
  const torch::NoGradGuard no_grad;
  const auto before = all.module->weight.clone();
  all.module->weight.add_(1);
  Adam optimizer(named_parameters(*all.module), {}, &all.average);
  optimizer.step(at::ones({}, at::kBool));
  EXPECT_TRUE(at::equal(all.copy->weight, before)) << "a skipped step";
  optimizer.step();  // no gradients: the average alone moves
  EXPECT_TRUE(at::allclose(all.copy->weight, before + 0.25));
  EXPECT_TRUE(all.average.of(all.module->weight).is_same(all.copy->weight));
}

TEST(WeightAverage, TakesADecayThatVaries) {
  const Averaged all;
  all.module->weight.mutable_grad() = at::zeros_like(all.module->weight);
  const torch::NoGradGuard no_grad;
  const auto before = all.module->weight.clone();
  all.module->weight.add_(1);
  Adam optimizer(named_parameters(*all.module), {}, &all.average);
  optimizer.set_average_decay(at::full({}, 0.5));
  optimizer.step(at::ones({}, at::kBool));
  EXPECT_TRUE(at::equal(all.copy->weight, before)) << "a skipped step";
  optimizer.step();
  EXPECT_TRUE(at::allclose(all.copy->weight, before + 0.5));
  optimizer.set_average_decay(at::zeros({}));
  optimizer.step();
  EXPECT_TRUE(at::allclose(all.copy->weight, all.module->weight));
}

TEST(WeightAverage, CopiesRowsBuffersOrAll) {
  Averaged all;
  const torch::NoGradGuard no_grad;
  const auto before = all.module->weight.clone();
  all.module->weight.add_(1);
  all.module->mean.fill_(5);
  all.average.copy_rows(all.module->weight, at::arange(3).eq(2));
  EXPECT_TRUE(at::equal(all.copy->weight[2], before[2] + 1));
  EXPECT_TRUE(at::equal(all.copy->weight[1], before[1]));
  EXPECT_EQ(all.copy->mean[0].item<float>(), 0);
  all.average.copy_buffers();
  EXPECT_EQ(all.copy->mean[0].item<float>(), 5);
  all.average.copy_all();
  EXPECT_TRUE(at::equal(all.copy->weight, before + 1));
  EXPECT_THROW(all.average.of(at::ones({2})), c10::Error);
}

}  // namespace
}  // namespace nsvq
