#include "nsvq/ops/code_search/code_search_reference.h"

#include <gtest/gtest.h>

#include <cmath>

namespace nsvq::ns_loss_test {
namespace {

struct Expected {
  double loss = 0;
  torch::Tensor gradient;
};

/// The paper's loss, term by term.
Expected by_hand(const torch::Tensor& z, const torch::Tensor& c, const torch::Tensor& q,
                 double tau) {
  const int64_t n = z.size(0), k = c.size(0), d = z.size(1);
  Expected expected{0, at::zeros({k, d}, at::kDouble)};
  for (int64_t i = 0; i < n; ++i) {
    std::vector<double> distance(k);
    double least = INFINITY, total = 0;
    for (int64_t j = 0; j < k; ++j) {
      distance[j] = (z[i] - c[j]).square().sum().item<double>();
      least = std::min(least, distance[j]);
    }
    for (int64_t j = 0; j < k; ++j) total += std::exp((least - distance[j]) / tau);
    for (int64_t j = 0; j < k; ++j) {
      if (j == q[i].item<int64_t>()) continue;
      const double p = std::exp((least - distance[j]) / tau) / total;
      expected.loss += p * distance[j] / static_cast<double>(n * d);
      expected.gradient[j] += (c[j] - z[i]) * (2 * p / static_cast<double>(n * d));
    }
  }
  return expected;
}

TEST(NsLoss, ValueAndGradientEqualTheSums) {
  torch::manual_seed(0);
  for (const int64_t n : {1, 31, 33}) {
    for (const int64_t k : {1, 2, 33}) {
      const auto z = at::randn({n, 4}, at::kDouble) * 0.5;
      const auto c = (at::randn({k, 4}, at::kDouble) * 0.5).requires_grad_();
      const auto q = nearest_codes_reference(z, c);
      const auto loss = ns_loss_reference(z, c, q, 0.35);
      loss.backward();
      const auto expected = by_hand(z, c.detach(), q, 0.35);
      EXPECT_NEAR(loss.item<double>(), expected.loss, 1e-12);
      EXPECT_LE((c.grad() - expected.gradient).abs().max().item<double>(), 1e-12);
    }
  }
}

// The weights are constants: with them held fixed, the gradient is that of finite differences.
TEST(NsLoss, WeightsAreDetached) {
  torch::manual_seed(1);
  const auto z = at::randn({3, 2}, at::kDouble), c = at::randn({4, 2}, at::kDouble);
  const auto q = nearest_codes_reference(z, c);
  const auto weights =
      at::softmax(squared_distances(z, c) / -0.35, 1).scatter(1, q.unsqueeze(1), 0);
  const auto with_fixed_weights = [&](const torch::Tensor& codebook) {
    return ((weights * squared_distances(z, codebook)).sum() / z.numel()).item<double>();
  };
  const auto parameter = c.clone().requires_grad_();
  ns_loss_reference(z, parameter, q, 0.35).backward();
  for (int64_t j = 0; j < 4; ++j) {
    auto up = c.clone(), down = c.clone();
    up[j][1] += 1e-6;
    down[j][1] -= 1e-6;
    EXPECT_NEAR(parameter.grad()[j][1].item<double>(),
                (with_fixed_weights(up) - with_fixed_weights(down)) / 2e-6, 1e-8);
  }
}

TEST(NsLoss, LatentsGetNoGradient) {
  const auto z = at::randn({3, 2}).requires_grad_(), c = at::randn({4, 2}).requires_grad_();
  ns_loss_reference(z, c, nearest_codes_reference(z, c), 0.35).backward();
  EXPECT_FALSE(z.grad().defined());
}

TEST(NsLoss, FarLatentsDoNotOverflow) {
  const auto z = at::full({2, 4}, 1e4), c = at::randn({5, 4});
  EXPECT_TRUE(
      std::isfinite(ns_loss_reference(z, c, nearest_codes_reference(z, c), 0.01).item<double>()));
}

TEST(NsLoss, NoLatents) {
  const auto c = at::randn({4, 2}).requires_grad_();
  const auto loss = ns_loss_reference(at::empty({0, 2}), c, at::empty({0}, at::kLong), 0.35);
  loss.backward();
  EXPECT_EQ(loss.item<double>(), 0);
  EXPECT_EQ(c.grad().abs().max().item<double>(), 0);
}

TEST(NsLoss, RefusesAnImpossibleTemperature) {
  EXPECT_THROW(ns_loss_reference(at::ones({1, 2}), at::ones({3, 2}), at::zeros({1}, at::kLong), 0),
               c10::Error);
}

}  // namespace
}  // namespace nsvq::ns_loss_test
