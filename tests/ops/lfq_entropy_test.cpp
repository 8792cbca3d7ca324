#include "nsvq/ops/soft_assignment/lfq_entropy.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

namespace nsvq::lfq_entropy_test {
namespace {

using Entropies = LfqEntropy (*)(const torch::Tensor&, double);

struct Outcome {
  double sample, batch;
  torch::Tensor to_sample, to_batch;
};

/// lfq_entropy without other ranks.
LfqEntropy own_entropy(const torch::Tensor& latents, double temperature) {
  return lfq_entropy(latents, temperature);
}

Outcome outcome(Entropies entropies, const torch::Tensor& latents, double temperature) {
  const auto z = latents.clone().requires_grad_();
  const auto [sample, batch] = entropies(z, temperature);
  return {sample.item<double>(), batch.item<double>(),
          torch::autograd::grad({sample}, {z}, {}, /*retain_graph=*/true)[0],
          torch::autograd::grad({batch}, {z})[0]};
}

double distance(const torch::Tensor& a, const torch::Tensor& b) {
  return (a - b).abs().max().item<double>();
}

TEST(LfqEntropy, EqualsTheMatrixOfAllCodes) {
  torch::manual_seed(1);
  for (const int64_t bits : {1, 2, 3, 7, 10}) {
    for (const int64_t n : {1, 2, 33}) {
      for (const double temperature : {0.01, 0.3, 2.0}) {
        SCOPED_TRACE(testing::Message() << bits << " bits, " << n << ", " << temperature);
        const auto z = at::randn({n, bits}, at::kDouble) * 0.3;
        const auto ours = outcome(own_entropy, z, temperature);
        const auto plain = outcome(lfq_entropy_reference, z, temperature);
        EXPECT_NEAR(ours.sample, plain.sample, 1e-12);
        EXPECT_NEAR(ours.batch, plain.batch, 1e-12);
        EXPECT_LE(distance(ours.to_sample, plain.to_sample), 1e-11);
        EXPECT_LE(distance(ours.to_batch, plain.to_batch), 1e-11);
      }
    }
  }
}

TEST(LfqEntropy, SinglePrecisionIsClose) {
  torch::manual_seed(2);
  const auto z = at::randn({200, 9}) * 0.02;
  const auto ours = outcome(own_entropy, z, 0.01);
  const auto exact = outcome(lfq_entropy_reference, z.to(at::kDouble), 0.01);
  EXPECT_NEAR(ours.sample, exact.sample, 1e-5);
  EXPECT_NEAR(ours.batch, exact.batch, 1e-5);
  EXPECT_LE(distance(ours.to_sample, exact.to_sample),
            1e-5 * exact.to_sample.abs().max().item<double>());
  EXPECT_LE(distance(ours.to_batch, exact.to_batch),
            1e-5 * exact.to_batch.abs().max().item<double>());
}

TEST(LfqEntropy, GradientsAreFiniteDifferences) {
  torch::manual_seed(3);
  const auto z = at::randn({5, 4}, at::kDouble) * 0.2;
  const auto ours = outcome(own_entropy, z, 0.5);
  for (int64_t i = 0; i < 5; ++i) {
    for (int64_t k = 0; k < 4; ++k) {
      auto up = z.clone(), down = z.clone();
      up[i][k] += 1e-6;
      down[i][k] -= 1e-6;
      const auto high = lfq_entropy(up, 0.5), low = lfq_entropy(down, 0.5);
      EXPECT_NEAR(ours.to_batch[i][k].item<double>(),
                  (high.batch - low.batch).item<double>() / 2e-6, 1e-8);
      EXPECT_NEAR(ours.to_sample[i][k].item<double>(),
                  (high.sample - low.sample).item<double>() / 2e-6, 1e-8);
    }
  }
}

// At temperature 0.01 latents of 1 have probabilities of exp(-400): 0 and 1 in any precision.
TEST(LfqEntropy, CertainBitsHaveNoEntropyAndNoNaN) {
  const auto z = at::tensor({5, -5, 1, 3, -1, -2}, at::kFloat).view({2, 3});
  const auto ours = outcome(own_entropy, z, 0.01);
  EXPECT_EQ(ours.sample, 0);
  EXPECT_NEAR(ours.batch, -std::log(0.5 + 1e-5), 1e-6);
  EXPECT_EQ(ours.to_sample.abs().max().item<double>(), 0);
  EXPECT_EQ(ours.to_batch.abs().max().item<double>(), 0);
  const auto large = outcome(own_entropy, z * 1e30, 0.01);
  EXPECT_TRUE(std::isfinite(large.batch));
  EXPECT_TRUE(at::isfinite(large.to_batch).all().item<bool>());
}

TEST(LfqEntropy, UndecidedBitsHaveAllOfIt) {
  const auto ours = outcome(own_entropy, at::zeros({3, 6}), 0.01);
  EXPECT_NEAR(ours.sample, 6 * std::log(2.0), 1e-6);
  EXPECT_NEAR(ours.batch, -std::log(1 / 64.0 + 1e-5), 1e-5);
}

// 16 bits and more rows than one piece: all 65,536 codes once are an even batch.
TEST(LfqEntropy, PiecesOfABatchAddUp) {
  const auto numbers = at::arange(65536).unsqueeze(1);
  const auto bits = numbers.bitwise_right_shift(at::arange(16)).bitwise_and(1);
  const auto z = (2 * bits - 1).to(at::kFloat);
  EXPECT_NEAR(lfq_entropy(z, 0.01).batch.item<double>(), -std::log(1 / 65536.0 + 1e-5), 1e-4);
  torch::manual_seed(4);
  const auto soft = at::randn({20000, 16}) * 0.01;
  const auto whole = outcome(own_entropy, soft, 0.05);
  const auto order = at::randperm(20000);
  const auto mixed = outcome(own_entropy, soft.index_select(0, order), 0.05);
  EXPECT_NEAR(whole.batch, mixed.batch, 1e-5);
  EXPECT_LE(distance(whole.to_batch.index_select(0, order), mixed.to_batch), 1e-8);
}

TEST(LfqEntropy, NoLatents) {
  const auto z = at::empty({0, 4}).requires_grad_();
  const auto [sample, batch] = lfq_entropy(z, 0.01);
  (sample + batch).backward();
  EXPECT_EQ(sample.item<double>() + batch.item<double>(), 0);
}

TEST(LfqEntropy, RefusesWhatCannotBe) {
  EXPECT_THROW(lfq_entropy(at::ones({2, 25}), 0.01), c10::Error);
  EXPECT_THROW(lfq_entropy(at::ones({2, 3}), 0), c10::Error);
}

}  // namespace
}  // namespace nsvq::lfq_entropy_test
