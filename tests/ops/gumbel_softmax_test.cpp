#include "nsvq/ops/soft_assignment/gumbel_softmax.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "nsvq/core/device.h"
#include "nsvq/core/precision.h"
#include "nsvq/ops/random/seeded_random.h"
#include "tests/seed_of.h"

namespace nsvq::gumbel_softmax_test {
namespace {

using Tensors = std::vector<torch::Tensor>;

struct Draw {
  torch::Tensor latents, weights, offsets, codebook;
  torch::Tensor temperature;
  std::optional<torch::Tensor> seed;
};

Draw draw_of(int64_t n, int64_t k, bool noisy, at::ScalarType type, c10::Device device) {
  torch::manual_seed(n + k);
  const auto normal = [&](at::IntArrayRef sizes) {
    return at::randn(sizes, at::kDouble).to(type).to(device);
  };
  Draw draw{normal({n, 5}).requires_grad_(),
            normal({k, 5}).requires_grad_(),
            normal({k}).requires_grad_(),
            normal({k, 5}),
            at::full({}, 0.6, at::device(device).dtype(type)),
            std::nullopt};
  if (noisy) draw.seed = seed_of(9, device);
  return draw;
}

enum class Terms { both, carrier, entropy };

/// The gradients of sum(carrier * pull) + 0.3 entropy, or of one of these terms, for latents,
/// weights and offsets, then indices and entropy.
Tensors results(const Draw& draw, const GumbelSoftmax& chosen, Terms terms) {
  const auto& carrier = chosen.carrier;
  EXPECT_TRUE(carrier.eq(0).all().item<bool>());
  const auto pull = at::arange(draw.latents.numel(), carrier.options()).sin().view_as(carrier);
  const auto pulled = (carrier * pull).sum(), weighted = 0.3 * chosen.entropy;
  const auto total = terms == Terms::both      ? pulled + weighted
                     : terms == Terms::carrier ? pulled
                                               : weighted;
  auto all = torch::autograd::grad({total}, {draw.latents, draw.weights, draw.offsets});
  all.push_back(chosen.indices);
  all.push_back(chosen.entropy.detach());
  return all;
}

Tensors plain_results(const Draw& draw, Terms terms) {
  return results(draw,
                 gumbel_softmax_reference(draw.latents, draw.weights, draw.offsets, draw.codebook,
                                          draw.temperature, draw.seed),
                 terms);
}

Tensors our_results(const Draw& draw, std::optional<int64_t> chunk, Terms terms = Terms::both) {
  return results(draw,
                 gumbel_softmax(draw.latents, draw.weights, draw.offsets, draw.codebook,
                                draw.temperature, draw.seed, chunk),
                 terms);
}

void expect_plain_results(const Draw& draw, std::optional<int64_t> chunk, Terms terms,
                          double tolerance) {
  const auto plain = plain_results(draw, terms), ours = our_results(draw, chunk, terms);
  for (size_t i = 0; i < plain.size(); ++i) {
    EXPECT_TRUE(at::allclose(ours[i], plain[i], tolerance, tolerance))
        << "result " << i << " of " << draw.latents.size(0) << " x " << draw.codebook.size(0)
        << (draw.seed ? ", noisy" : "") << ", terms " << static_cast<int>(terms);
  }
}

/// Rows that kernels read by fours and rows that they do not, and rows longer than a block's
/// threads.
void expect_plain_results(at::ScalarType type, c10::Device device, double tolerance) {
  for (const int64_t n : {1, 31, 33}) {
    for (const int64_t k : {1, 4, 31, 32, 33, 4096, 4099}) {
      for (const bool noisy : {false, true}) {
        const auto draw = draw_of(n, k, noisy, type, device);
        expect_plain_results(draw, {}, Terms::both, tolerance);
        expect_plain_results(draw, 7, Terms::both, tolerance);
        expect_plain_results(draw, {}, Terms::carrier, tolerance);
        expect_plain_results(draw, {}, Terms::entropy, tolerance);
      }
    }
  }
}

TEST(GumbelSoftmax, EqualThePlainVersion) { expect_plain_results(at::kDouble, at::kCPU, 1e-12); }

TEST(GumbelSoftmax, EqualThePlainVersionInFp32) {
  expect_plain_results(at::kFloat, at::kCPU, 2e-4);
}

TEST(GumbelSoftmax, EqualThePlainVersionOnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  const Tf32Guard exact(Tf32Work::convolutions, false);
  expect_plain_results(at::kFloat, at::kCUDA, 2e-4);
}

/// Logits with a relative error of about 2^-11 give different draws in a few rows.
TEST(GumbelSoftmax, RoundedProductsChangeLittleOnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  const auto draw = draw_of(2000, 512, true, at::kFloat, at::kCUDA);
  const auto results_if = [&](bool rounded) {
    const Tf32Guard allowed(Tf32Work::convolutions, rounded);
    return our_results(draw, {});
  };
  const auto exact = results_if(false), rounded = results_if(true);
  const auto difference = [&](size_t i) {
    return ((rounded[i] - exact[i]).norm() / exact[i].norm()).item<double>();
  };
  for (const size_t i : {0, 1, 2, 4}) EXPECT_LT(difference(i), 2e-3) << "result " << i;
  EXPECT_GT(difference(4), 0) << "nothing was rounded forward";
  EXPECT_GT(difference(0), 1e-6) << "nothing was rounded backward";
  EXPECT_LT(rounded[3].ne(exact[3]).to(at::kFloat).mean().item<double>(), 5e-3);
}

void expect_finite_at_low_temperature(c10::Device device) {
  auto draw = draw_of(33, 31, true, at::kFloat, device);
  draw.temperature.fill_(1e-6);
  for (const auto& result : our_results(draw, {})) {
    EXPECT_TRUE(at::isfinite(result).all().item<bool>());
  }
}

TEST(GumbelSoftmax, LowTemperaturesStayFinite) { expect_finite_at_low_temperature(at::kCPU); }

TEST(GumbelSoftmax, LowTemperaturesStayFiniteOnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  expect_finite_at_low_temperature(at::kCUDA);
}

/// Expects valid indices, and no entropy, where all latents, or one, are not finite.
void expect_indices_of_nan(c10::Device device) {
  const torch::NoGradGuard no_grad;
  for (const int64_t rows : {1, 33}) {
    auto draw = draw_of(33, 31, true, at::kFloat, device);
    draw.latents.slice(0, 0, rows).fill_(NAN);
    const auto ours = gumbel_softmax(draw.latents, draw.weights, draw.offsets, draw.codebook,
                                     draw.temperature, draw.seed);
    EXPECT_TRUE(ours.indices.ge(0).logical_and(ours.indices.lt(31)).all().item<bool>());
    EXPECT_TRUE(ours.entropy.isnan().item<bool>());
  }
}

TEST(GumbelSoftmax, OfNaNAreIndicesAndNoEntropy) { expect_indices_of_nan(at::kCPU); }

TEST(GumbelSoftmax, OfNaNAreIndicesAndNoEntropyOnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  expect_indices_of_nan(at::kCUDA);
}

/// Two codes have the largest logit, or all have it.
void expect_first_of_ties(c10::Device device) {
  const torch::NoGradGuard no_grad;
  for (const int64_t k : {31, 4096}) {
    auto draw = draw_of(33, k, false, at::kFloat, device);
    const auto chosen = [&] {
      return gumbel_softmax(draw.latents, draw.weights, draw.offsets, draw.codebook,
                            draw.temperature, {})
          .indices;
    };
    draw.offsets.slice(0, k - 2).fill_(1e4);
    draw.weights.slice(0, k - 2).zero_();
    EXPECT_TRUE(chosen().eq(k - 2).all().item<bool>());
    draw.offsets.fill_(-INFINITY);
    EXPECT_TRUE(chosen().eq(0).all().item<bool>());
  }
}

TEST(GumbelSoftmax, TakesTheFirstOfTies) { expect_first_of_ties(at::kCPU); }

TEST(GumbelSoftmax, TakesTheFirstOfTiesOnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  expect_first_of_ties(at::kCUDA);
}

TEST(GumbelValues, HaveTheirDistribution) {
  const auto seed = seed_of(4);
  const auto values = gumbel_values(seed, 0, 200000);
  for (double point = -2; point < 6; point += 0.1) {
    const double share = values.lt(point).to(at::kDouble).mean().item<double>();
    EXPECT_NEAR(share, std::exp(-std::exp(-point)), 1.63 / std::sqrt(200000.0)) << point;
  }
  EXPECT_TRUE(at::isfinite(values).all().item<bool>());
  EXPECT_TRUE(at::equal(gumbel_values(seed, 37, 100), values.slice(0, 37, 137)));
}

}  // namespace
}  // namespace nsvq::gumbel_softmax_test
