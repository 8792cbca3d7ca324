// Gaussian data, of which the best denoiser is known in closed form: for x0 of mean m and
// covariance S, E[x0 | x] = m + a S (a^2 S + b^2)^-1 (x - a m) at x = a x0 + b eps. Sampling with
// it must give back mean and covariance.

#include <gtest/gtest.h>

#include <cmath>

#include "nsvq/diffusion/latent_sampler.h"

namespace nsvq {
namespace {

using torch::Tensor;

constexpr int64_t kSamples = 20000;

Tensor gaussian_mean() { return at::tensor({0.5, -1.0, 2.0}, at::kDouble); }

/// Covariance with deviations from 0.3 to 1.5 and correlations.
Tensor gaussian_covariance() {
  const auto root = at::tensor({1.0, 0.3, -0.4, 0.0, 0.5, 0.2, 0.2, -0.1, 0.3}, at::kDouble);
  const auto square = root.view({3, 3});
  return square.matmul(square.t()) + 0.05 * at::eye(3, at::kDouble);
}

/// The data that is expected given x [N, 3].
Tensor expected_data(const Tensor& x, double abar) {
  const auto mean = gaussian_mean(), covariance = gaussian_covariance();
  const double signal = std::sqrt(abar);
  const auto spread = abar * covariance + (1 - abar) * at::eye(3, at::kDouble);
  const auto gain = signal * covariance.matmul(spread.inverse());
  return mean + (x - signal * mean).matmul(gain.t());
}

Tensor normal_noise(int64_t number) {
  torch::manual_seed(number);
  return at::randn({kSamples, 3}, at::kDouble);
}

void expect_gaussian(const std::string& schedule_name, const SampleConfig& config,
                     const std::string& prediction, double tolerance) {
  SCOPED_TRACE(schedule_name + " " + config.sampler + " eta " + std::to_string(config.eta) + " " +
               prediction);
  const auto schedule = make_noise_schedule({schedule_name});
  const Denoiser best = [&](const Tensor& x, const Tensor& times) {
    const double abar = schedule.abar.at(times[0].item<int64_t>());
    const auto data = expected_data(x, abar);
    const auto eps = (x - std::sqrt(abar) * data) / std::sqrt(1 - abar);
    return prediction == "v" ? std::sqrt(abar) * eps - std::sqrt(1 - abar) * data : eps;
  };
  const auto samples = sample_latents(
      {plan_sampling(schedule, config), prediction_kind(prediction), normal_noise(0)}, best,
      normal_noise);
  const auto mean = samples.mean(0);
  const auto centred = samples - mean;
  const auto covariance = centred.t().matmul(centred) / (kSamples - 1);
  EXPECT_LT((mean - gaussian_mean()).abs().max().item<double>(), tolerance) << mean;
  EXPECT_LT((covariance - gaussian_covariance()).abs().max().item<double>(), 2 * tolerance)
      << covariance << gaussian_covariance();
}

/// Means of so many samples are off by 0.008, covariances by 0.015; the rest of the tolerance is
/// the length of the steps.
TEST(GaussianData, ComesBackByEverySampler) {
  for (const auto& kind : sampler_kinds()) {
    const int64_t steps = kind.name == "dpm-solver++" ? 50 : 200;
    expect_gaussian("linear", {.sampler = kind.name, .steps = steps}, "eps", 0.035);
    expect_gaussian("cosine", {.sampler = kind.name, .steps = steps}, "v", 0.035);
  }
  expect_gaussian("sqrt-linear", {.sampler = "ddim", .steps = 200, .eta = 0.5}, "eps", 0.035);
}

/// In few steps the solver of second order is the closest: what it is for.
TEST(GaussianData, SecondOrderNeedsFewerSteps) {
  const auto schedule = make_noise_schedule({});
  const Denoiser best = [&](const Tensor& x, const Tensor& times) {
    const double abar = schedule.abar.at(times[0].item<int64_t>());
    return (x - std::sqrt(abar) * expected_data(x, abar)) / std::sqrt(1 - abar);
  };
  const auto result = [&](const std::string& sampler, int64_t steps) {
    const auto noise = [](int64_t number) { return normal_noise(number).slice(0, 0, 300); };
    return sample_latents({plan_sampling(schedule, {.sampler = sampler, .steps = steps}),
                           prediction_kind("eps"), noise(0)},
                          best, noise);
  };
  const auto exact = result("ddim", 1000);  // deterministic: the same noise leads to the same data
  const auto error = [&](const std::string& sampler, int64_t steps) {
    return (result(sampler, steps) - exact).square().mean().sqrt().item<double>();
  };
  EXPECT_LT(error("dpm-solver++", 15), 0.5 * error("ddim", 15));
  EXPECT_LT(error("dpm-solver++", 40), error("dpm-solver++", 15));
  EXPECT_LT(error("ddim", 100), 0.5 * error("ddim", 15));
}

}  // namespace
}  // namespace nsvq
