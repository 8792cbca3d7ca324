#include "nsvq/train/steps/gradient_buckets.h"

#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include "tests/two_ranks.h"

namespace nsvq {
namespace {

struct Layers : torch::nn::Module {
  torch::nn::Linear first = register_module("first", torch::nn::Linear(3, 4));
  torch::nn::Linear unused = register_module("unused", torch::nn::Linear(2, 2));
  torch::nn::Linear second = register_module("second", torch::nn::Linear(4, 1));

  torch::Tensor loss(const torch::Tensor& x) {
    return second->forward(at::tanh(first->forward(x))).square().mean();
  }
};

std::shared_ptr<Layers> make_layers() {
  static std::mutex one_at_a_time;  // ranks are threads here
  const std::lock_guard lock(one_at_a_time);
  torch::manual_seed(3);
  return std::make_shared<Layers>();
}

torch::Tensor inputs_of(int rank) { return at::arange(15).reshape({5, 3}) * 0.1 - rank; }

TEST(GradientBuckets, HoldTheMeanOverRanks) {
  const auto alone = make_layers();
  alone->loss(at::cat({inputs_of(0), inputs_of(1)})).backward();
  on_two_ranks([&](int rank, Group& group) {
    const auto layers = make_layers();
    GradientBuckets buckets(*layers, group, at::kFloat);
    for (int step = 0; step < 2; ++step) {
      layers->zero_grad();
      buckets.arm();
      layers->loss(inputs_of(rank)).backward();
      buckets.finish();
      EXPECT_TRUE(
          at::allclose(layers->first->weight.grad(), alone->first->weight.grad(), 1e-5, 1e-7));
      EXPECT_TRUE(
          at::allclose(layers->second->bias.grad(), alone->second->bias.grad(), 1e-5, 1e-7));
      EXPECT_FALSE(layers->unused->weight.grad().defined());
      EXPECT_EQ(buckets.bytes(), 4 * (12 + 4 + 4 + 1));
    }
  });
}

TEST(GradientBuckets, NothingOfFrozenParametersTravels) {
  on_two_ranks([&](int rank, Group& group) {
    const auto layers = make_layers();
    GradientBuckets buckets(*layers, group, at::kFloat);
    const auto step = [&] {
      layers->zero_grad();
      buckets.arm();
      layers->loss(inputs_of(rank)).backward();
      buckets.finish();
      return buckets.bytes();
    };
    EXPECT_EQ(step(), 4 * (12 + 4 + 4 + 1));
    for (auto& parameter : layers->first->parameters()) parameter.set_requires_grad(false);
    EXPECT_EQ(step(), 4 * (4 + 1));
    for (auto& parameter : layers->first->parameters()) parameter.set_requires_grad(true);
    EXPECT_EQ(step(), 4 * (12 + 4 + 4 + 1));
  });
}

TEST(GradientBuckets, TravelInHalfTheBytesAsBf16) {
  on_two_ranks([&](int rank, Group& group) {
    const auto layers = make_layers(), exact = make_layers();
    GradientBuckets buckets(*layers, group, at::kBFloat16), wide(*exact, group, at::kFloat);
    buckets.arm();
    layers->loss(inputs_of(rank)).backward();
    buckets.finish();
    wide.arm();
    exact->loss(inputs_of(rank)).backward();
    wide.finish();
    EXPECT_EQ(buckets.bytes(), 2 * (12 + 4 + 4 + 1));
    EXPECT_TRUE(
        at::allclose(layers->first->weight.grad(), exact->first->weight.grad(), 0.02, 1e-3));
  });
}

TEST(GradientBuckets, LeaveGradientsAloneOutsideOfTheirPass) {
  on_two_ranks([&](int rank, Group& group) {
    const auto layers = make_layers(), other = make_layers();
    GradientBuckets buckets(*layers, group, at::kFloat);
    layers->loss(inputs_of(rank)).backward();
    other->loss(inputs_of(rank)).backward();
    EXPECT_TRUE(at::equal(layers->first->weight.grad(), other->first->weight.grad()));
  });
}

}  // namespace
}  // namespace nsvq
