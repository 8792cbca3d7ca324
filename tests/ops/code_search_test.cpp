#include "nsvq/ops/code_search/code_search.h"

#include <gtest/gtest.h>

#include <cmath>

#include "nsvq/ops/code_search/code_search_reference.h"
#include "nsvq/ops/code_search/ns_search.h"
#include "nsvq/ops/common/dispatch.h"
#include "tests/threads.h"

namespace nsvq::code_search_test {
namespace {

TEST(NearestCodes, NonContiguousInputAndAnyNumberOfThreads) {
  torch::manual_seed(1);
  const auto latents = at::randn({8, 1000}).t(), codebook = at::randn({700, 16}).slice(1, 0, 16, 2);
  const auto expected = std::get<0>(nearest_codes_fp64(latents, codebook));
  for (const int threads : {1, 2, 5}) {
    const Threads at_work(threads);
    EXPECT_TRUE(at::equal(std::get<0>(nearest_codes(latents, codebook)), expected)) << threads;
  }
}

/// Codes so small that rounding makes fp64 distances equal or changes their order.
TEST(NearestCodes, TinyCodesAsFp64DistancesHaveThem) {
  torch::manual_seed(6);
  for (const double size : {1e-9, 1e-13, 1e-15, 1e-17, 1e-30}) {
    const auto latents = at::randn({64, 64}), codebook = at::randn({3000, 64}) * size;
    EXPECT_TRUE(at::equal(std::get<0>(nearest_codes(latents, codebook)),
                          std::get<0>(nearest_codes_fp64(latents, codebook))))
        << size;
  }
}

TEST(NearestCodes, TakesFp64OnACpu) {
  torch::manual_seed(4);
  const auto latents = at::randn({50, 16}, at::kDouble),
             codebook = at::randn({300, 16}, at::kDouble);
  const auto [indices, distances] = nearest_codes(latents, codebook);
  const auto [expected, expected_distances] = nearest_codes_fp64(latents, codebook);
  EXPECT_TRUE(at::equal(indices, expected));
  EXPECT_TRUE(at::equal(distances, expected_distances));
}

TEST(NearestCodes, RefusesWhatHasNoNearestCode) {
  auto bad = at::zeros({3, 2});
  bad[1][0] = NAN;
  EXPECT_THROW(nearest_codes(bad, at::ones({4, 2})), c10::Error);
  EXPECT_THROW(nearest_codes(at::ones({4, 2}), bad), c10::Error);
  EXPECT_THROW(nearest_codes(at::ones({4, 2}), at::empty({0, 2})), c10::Error);
  EXPECT_THROW(nearest_codes(at::ones({4, 2}), at::ones({4, 3})), c10::Error);
}

struct Result {
  double loss;
  torch::Tensor gradient;
};

template <typename Loss>
Result result_of(const torch::Tensor& codebook, const Loss& loss_of) {
  const auto leaf = codebook.clone().requires_grad_();
  const auto loss = loss_of(leaf);
  loss.backward();
  return {loss.template item<double>(), leaf.grad().to(at::kDouble)};
}

Result quantized(const torch::Tensor& latents, const torch::Tensor& codebook, double tau) {
  return result_of(codebook,
                   [&](const torch::Tensor& leaf) { return ns_quantize(latents, leaf, tau).loss; });
}

// A weight far below the rounding of 1 still counts.
TEST(NsQuantize, KeepsTheWinnerOutOfTheSums) {
  const auto latents = at::zeros({1, 1});
  const auto codebook = at::tensor({2.0f, 3.0f, 0.0f, -2.0f}).unsqueeze(1);
  const double tau = 0.2, weight = 2 * std::exp(-4 / tau);
  const auto loss = ns_quantize(latents, codebook, tau).loss.item<double>();
  EXPECT_NEAR(loss / (4 * weight), 1, 1e-5);
}

TEST(NsQuantize, EqualForAnyNumberOfThreads) {
  torch::manual_seed(2);
  const auto latents = at::randn({700, 16}) * 0.3, codebook = at::randn({1900, 16}) * 0.3;
  const auto with = [&](int threads) {
    const Threads at_work(threads);
    return quantized(latents, codebook, 0.35);
  };
  const auto expected = with(1);
  for (const int threads : {2, 3, 5}) {
    const auto other = with(threads);
    EXPECT_EQ(other.loss, expected.loss);
    EXPECT_TRUE(at::equal(other.gradient, expected.gradient));
  }
}

// Results of training depend on where the factor 2 / (N d) is rounded.
TEST(NsQuantize, GradientIsTheSumTimesOneFactor) {
  torch::manual_seed(5);
  const auto latents = at::randn({37, 12}) * 0.5, codebook = at::randn({90, 12}) * 0.5;
  const auto leaf = codebook.clone().requires_grad_();
  const auto weight = at::full({}, 0.7f);
  (ns_quantize(latents, leaf, 0.35).loss * weight).backward();
  const auto sum = std::get<4>(ns_search(latents, codebook, 0.35, /*with_grad=*/true));
  EXPECT_TRUE(at::equal(leaf.grad(), sum * (weight * (2.0 / (37 * 12)))));
}

// Distances that nothing uses leave latents without a gradient and cost no index_add.
TEST(NsQuantize, UnusedDistancesGiveNoGradient) {
  torch::manual_seed(6);
  const auto latents = at::randn({9, 4}).requires_grad_();
  const auto codebook = at::randn({20, 4}).requires_grad_();
  ns_quantize(latents, codebook, 0.35).loss.backward();
  EXPECT_FALSE(latents.grad().defined());
  EXPECT_TRUE(codebook.grad().defined());
}

torch::Tensor codebook_grad(const torch::Tensor& latents, const torch::Tensor& codebook,
                            const torch::Tensor& indices, const torch::Tensor& denominators,
                            double tau) {
  using Grad = torch::Tensor(const torch::Tensor&, const torch::Tensor&, const torch::Tensor&,
                             const torch::Tensor&, double);
  static const auto op = operator_named<Grad>("nsvq::ns_codebook_grad");
  return op.call(latents, codebook, indices, denominators, tau);
}

TEST(NsQuantize, MoreCodesThanWeightsAreKeptFor) {
  torch::manual_seed(3);
  const auto latents = at::randn({40, 4}), codebook = at::randn({66000, 4});
  const auto indices = std::get<0>(nearest_codes(latents, codebook));
  const auto exact = result_of(codebook.to(at::kDouble), [&](const torch::Tensor& leaf) {
    return ns_loss_reference(latents.to(at::kDouble), leaf, indices, 0.35);
  });
  const auto found = quantized(latents, codebook, 0.35);
  EXPECT_NEAR(found.loss / exact.loss, 1, 1e-5);
  EXPECT_LT((found.gradient - exact.gradient).norm().item<double>(),
            1e-5 * exact.gradient.norm().item<double>());
}

TEST(NsQuantize, RefusesWhatItCannotDo) {
  const auto latents = at::ones({3, 2}), codebook = at::ones({4, 2});
  auto bad = codebook.clone();
  bad[1][0] = INFINITY;
  EXPECT_THROW(ns_quantize(latents, bad, 0.35), c10::Error);
  EXPECT_THROW(ns_quantize(bad, codebook, 0.35), c10::Error);
  EXPECT_THROW(ns_quantize(latents * 1e20, codebook, 0.35), c10::Error);
  EXPECT_THROW(ns_quantize(latents, codebook, 0), c10::Error);
  EXPECT_THROW(ns_quantize(latents, codebook.to(at::kDouble), 0.35), c10::Error);
  EXPECT_THROW(ns_quantize(latents, at::ones({4, 3}), 0.35), c10::Error);
  const auto outside = at::full({3}, 4, at::kLong);
  EXPECT_THROW(codebook_grad(latents, codebook, outside, at::ones({3}), 0.35), c10::Error);
}

TEST(NsQuantize, ShapesForTracing) {
  const auto meta = at::TensorOptions().device(at::kMeta);
  const auto latents = at::empty({5, 3}, meta.dtype(at::kHalf)), codebook = at::empty({7, 3}, meta);
  const auto [indices, distances, losses, denominators, grad] =
      ns_search(latents, codebook, 0.35, /*with_grad=*/true);
  EXPECT_EQ(indices.scalar_type(), at::kLong);
  for (const auto& one : {indices, distances, losses, denominators}) {
    EXPECT_EQ(one.sizes(), at::IntArrayRef({5}));
    EXPECT_TRUE(one.is_meta());
  }
  EXPECT_EQ(losses.scalar_type(), at::kFloat);
  EXPECT_EQ(grad.sizes(), codebook.sizes());
  EXPECT_EQ(codebook_grad(latents, codebook, indices, denominators, 0.35).sizes(),
            codebook.sizes());
  EXPECT_EQ(std::get<0>(nearest_codes(latents, codebook)).sizes(), at::IntArrayRef({5}));
}

}  // namespace
}  // namespace nsvq::code_search_test
