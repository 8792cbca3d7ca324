#include "nsvq/ops/noisy_choice.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "nsvq/core/device.h"
#include "nsvq/core/precision.h"
#include "nsvq/ops/seeded_values.h"
#include "tests/seed_of.h"

namespace nsvq::noisy_choice_test {
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

/// Indices, entropy and the gradients of sum(carrier * pull) + 0.3 entropy.
Tensors results(const Draw& draw, const torch::Tensor& indices, const torch::Tensor& carrier,
                const torch::Tensor& entropy) {
  const auto pull = at::arange(draw.latents.numel(), carrier.options()).sin().view_as(carrier);
  auto all = torch::autograd::grad({(carrier * pull).sum() + 0.3 * entropy},
                                   {draw.latents, draw.weights, draw.offsets});
  all.push_back(indices);
  all.push_back(entropy.detach());
  return all;
}

Tensors plain_results(const Draw& draw) {
  const auto logits = at::addmm(draw.offsets, draw.latents, draw.weights.t());
  auto noisy = logits;
  if (draw.seed) {
    const auto noise = gumbel_values(*draw.seed, 0, logits.numel()).view_as(logits);
    noisy = logits + noise.to(logits.scalar_type());
  }
  const auto mean = at::softmax(noisy / draw.temperature, 1).matmul(draw.codebook);
  const auto entropy = -(at::softmax(logits, 1) * at::log_softmax(logits, 1)).sum();
  return results(draw, noisy.argmax(1), mean, entropy);
}

Tensors our_results(const Draw& draw, std::optional<int64_t> chunk) {
  const auto ours = noisy_choice(draw.latents, draw.weights, draw.offsets, draw.codebook,
                                 draw.temperature, draw.seed, chunk);
  EXPECT_TRUE(ours.carrier.eq(0).all().item<bool>());
  return results(draw, ours.indices, ours.carrier, ours.entropy);
}

void expect_plain_results(at::ScalarType type, c10::Device device, double tolerance) {
  for (const int64_t n : {1, 31, 33}) {
    for (const int64_t k : {1, 31, 33, 4099}) {
      for (const bool noisy : {false, true}) {
        const auto draw = draw_of(n, k, noisy, type, device);
        const auto plain = plain_results(draw);
        for (const std::optional<int64_t> chunk : {std::optional<int64_t>(), {7}}) {
          const auto ours = our_results(draw, chunk);
          for (size_t i = 0; i < plain.size(); ++i) {
            EXPECT_TRUE(at::allclose(ours[i], plain[i], tolerance, tolerance))
                << "result " << i << " of " << n << " x " << k << (noisy ? ", noisy" : "");
          }
        }
      }
    }
  }
}

TEST(NoisyChoice, EqualThePlainVersion) { expect_plain_results(at::kDouble, at::kCPU, 1e-12); }

TEST(NoisyChoice, EqualThePlainVersionInFp32) { expect_plain_results(at::kFloat, at::kCPU, 2e-4); }

TEST(NoisyChoice, EqualThePlainVersionOnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  const Tf32Convolutions exact(false);
  expect_plain_results(at::kFloat, at::kCUDA, 2e-4);
}

/// Draws of logits that are off by 2^-11 of a product or so are others in a few rows.
TEST(NoisyChoice, RoundedProductsChangeLittleOnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  const auto draw = draw_of(2000, 512, true, at::kFloat, at::kCUDA);
  const auto results_if = [&](bool rounded) {
    const Tf32Convolutions allowed(rounded);
    return our_results(draw, {});
  };
  const auto exact = results_if(false), rounded = results_if(true);
  const auto difference = [&](size_t i) {
    return ((rounded[i] - exact[i]).norm() / exact[i].norm()).item<double>();
  };
  for (const size_t i : {0, 1, 2, 4}) EXPECT_LT(difference(i), 2e-3) << "result " << i;
  EXPECT_GT(difference(0), 1e-6) << "nothing was rounded";
  EXPECT_LT(rounded[3].ne(exact[3]).to(at::kFloat).mean().item<double>(), 5e-3);
}

TEST(NoisyChoice, LowTemperaturesStayFinite) {
  for (const auto type : {c10::DeviceType::CPU, c10::DeviceType::CUDA}) {
    if (type == c10::DeviceType::CUDA && gpu_count() == 0) continue;
    auto draw = draw_of(33, 31, true, at::kFloat, type);
    draw.temperature.fill_(1e-6);
    for (const auto& result : our_results(draw, {})) {
      EXPECT_TRUE(at::isfinite(result).all().item<bool>());
    }
  }
}

TEST(NoisyChoice, OfNaNAreIndicesAndNoEntropy) {
  for (const auto type : {c10::DeviceType::CPU, c10::DeviceType::CUDA}) {
    if (type == c10::DeviceType::CUDA && gpu_count() == 0) continue;
    const torch::NoGradGuard no_grad;
    auto draw = draw_of(33, 31, true, at::kFloat, type);
    draw.latents.fill_(NAN);
    const auto ours = noisy_choice(draw.latents, draw.weights, draw.offsets, draw.codebook,
                                   draw.temperature, draw.seed);
    EXPECT_TRUE(ours.indices.ge(0).logical_and(ours.indices.lt(31)).all().item<bool>());
    EXPECT_TRUE(ours.entropy.isnan().item<bool>());
  }
}

TEST(NoisyChoice, EitherGradientMayBeLeftOut) {
  const auto draw = draw_of(9, 7, true, at::kDouble, at::kCPU);
  const auto gradient = [&](const NoisyChoice& ours, bool entropy) {
    const auto total = entropy ? ours.entropy : (ours.carrier * draw.latents.detach()).sum();
    return torch::autograd::grad({total}, {draw.weights})[0];
  };
  const auto drawn = [&] {
    return noisy_choice(draw.latents, draw.weights, draw.offsets, draw.codebook, draw.temperature,
                        draw.seed);
  };
  EXPECT_GT(gradient(drawn(), true).abs().max().item<double>(), 1e-3);
  EXPECT_GT(gradient(drawn(), false).abs().max().item<double>(), 1e-3);
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
}  // namespace nsvq::noisy_choice_test
