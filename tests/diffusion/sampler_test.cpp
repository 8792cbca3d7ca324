// Every step of every sampler against the papers' equations, written out in fp64.

#include "nsvq/diffusion/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>

#include "nsvq/diffusion/latent_sampler.h"
#include "tests/error_of.h"

namespace nsvq {
namespace {

using torch::Tensor;

constexpr double kTolerance = 1e-10;

/// A function of x and t that replaces a network which predicts noise.
Tensor fake_eps(const Tensor& x, int64_t time) {
  return at::sin(3 * x + static_cast<double>(time) / 100) + 0.1 * x;
}

Tensor fixed_noise(int64_t number) {
  torch::manual_seed(100 + number);
  return at::randn({3, 2, 2, 2}, at::kDouble);
}

/// What a reference knows of a step: times and abar of here and there, the noise, and what it
/// keeps.
struct ReferenceStep {
  double here, there;  ///< abar
  double before;       ///< abar of the step before; only of steps between the first and the last
  bool between;
  Tensor eps, x, fresh;
};
using ReferenceSampler = std::function<Tensor(const ReferenceStep&, Tensor& data_before)>;

Tensor data_seen(const ReferenceStep& s) {
  return (s.x - std::sqrt(1 - s.here) * s.eps) / std::sqrt(s.here);
}

/// Song et al., equations 12 and 16.
ReferenceSampler ddim_reference(double eta) {
  return [eta](const ReferenceStep& s, Tensor&) {
    const double sigma =
        eta * std::sqrt((1 - s.there) / (1 - s.here)) * std::sqrt(1 - s.here / s.there);
    return std::sqrt(s.there) * data_seen(s) + std::sqrt(1 - s.there - sigma * sigma) * s.eps +
           sigma * s.fresh;
  };
}

/// Ho et al., algorithm 2 with the variance of equation 7.
Tensor ddpm_reference(const ReferenceStep& s, Tensor&) {
  const double alpha = s.here / s.there, beta = 1 - alpha;
  const auto mean = (s.x - beta / std::sqrt(1 - s.here) * s.eps) / std::sqrt(alpha);
  return mean + std::sqrt((1 - s.there) / (1 - s.here) * beta) * s.fresh;
}

/// Lu et al., algorithm 2 of DPM-Solver++.
Tensor dpm_reference(const ReferenceStep& s, Tensor& data_before) {
  const auto lambda = [](double abar) { return std::log(std::sqrt(abar) / std::sqrt(1 - abar)); };
  const auto data = data_seen(s);
  auto line = data;
  if (s.between) {
    const double h = lambda(s.there) - lambda(s.here);
    const double r = (lambda(s.here) - lambda(s.before)) / h;
    line = (1 + 1 / (2 * r)) * data - 1 / (2 * r) * data_before;
  }
  data_before = data;
  if (s.there == 1) return line;
  const double h = lambda(s.there) - lambda(s.here);
  return std::sqrt(1 - s.there) / std::sqrt(1 - s.here) * s.x -
         std::sqrt(s.there) * (std::exp(-h) - 1) * line;
}

/// Times written out, from noise to data.
std::vector<int64_t> expected_times(const std::string& spacing, int64_t steps) {
  std::vector<int64_t> times;
  for (int64_t i = steps; i >= 1; --i) {
    if (spacing == "trailing") times.push_back(1000 * i / steps - 1);
    if (spacing == "leading") times.push_back(1000 * (i - 1) / steps);
    if (spacing == "compvis") times.push_back(1000 * (i - 1) / steps + 1);
  }
  return times;
}

void expect_steps(const SampleConfig& config, const std::string& prediction,
                  const ReferenceSampler& reference) {
  SCOPED_TRACE(config.sampler + " " + config.spacing + " " + config.last + " " + prediction + " " +
               std::to_string(config.steps));
  const auto schedule = make_noise_schedule({});
  const auto& kind = prediction_kind(prediction);
  const Denoiser denoiser = [&](const Tensor& x, const Tensor& times) {
    const auto time = times[0].item<int64_t>();
    EXPECT_TRUE(times.eq(time).all().item<bool>());
    const double abar = schedule.abar.at(time);
    const auto eps = fake_eps(x, time);
    const auto data = (x - std::sqrt(1 - abar) * eps) / std::sqrt(abar);
    return prediction == "v" ? std::sqrt(abar) * eps - std::sqrt(1 - abar) * data : eps;
  };
  LatentSampling sampling(plan_sampling(schedule, config), kind, fixed_noise(0));
  ASSERT_EQ(sampling.steps(), config.steps);
  const auto times = expected_times(config.spacing, config.steps);
  const double end = config.last == "one" ? 1 : schedule.abar[0];
  auto x = fixed_noise(0);
  Tensor data_before;
  for (int64_t i = 0; i < config.steps; ++i) {
    const bool last = i + 1 == config.steps;
    const ReferenceStep step{schedule.abar.at(times[i]),
                             last ? end : schedule.abar.at(times[i + 1]),
                             i > 0 ? schedule.abar.at(times[i - 1]) : 0,
                             i > 0 && !last,
                             fake_eps(x, times[i]),
                             x,
                             fixed_noise(i + 1)};
    x = reference(step, data_before);
    sampling.step(denoiser, fixed_noise);
    ASSERT_TRUE(at::allclose(sampling.samples(), x, kTolerance, kTolerance)) << "step " << i;
    x = sampling.samples();  // errors do not add up over steps
  }
}

void expect_all_ways(const SampleConfig& base, const ReferenceSampler& reference) {
  for (const int64_t steps : {1, 2, 7, 50}) {  // 7 does not divide 1,000
    for (const auto* spacing : {"trailing", "leading", "compvis"}) {
      for (const auto* last : {"one", "first"}) {
        // A first-order solver cannot step from a level to itself by a difference of logarithms.
        for (const auto* prediction : {"eps", "v"}) {
          auto config = base;
          config.steps = steps;
          config.spacing = spacing;
          config.last = last;
          expect_steps(config, prediction, reference);
        }
      }
    }
  }
}

TEST(Samplers, DdimIsThePapersAtEveryStep) {
  for (const double eta : {0.0, 0.3, 1.0}) {
    expect_all_ways({.sampler = "ddim", .eta = eta}, ddim_reference(eta));
  }
}

TEST(Samplers, DdpmIsThePapersAtEveryStep) {
  expect_all_ways({.sampler = "ddpm"}, ddpm_reference);
  expect_steps({.sampler = "ddpm", .steps = 1000}, "eps", ddpm_reference);
}

TEST(Samplers, DpmSolverIsThePapersAtEveryStep) {
  expect_all_ways({.sampler = "dpm-solver++"}, dpm_reference);
}

TEST(Samplers, TimesByHand) {
  const auto schedule = make_noise_schedule({});
  const auto times = [&](const std::string& spacing, int64_t steps) {
    SampleConfig config{.steps = steps, .spacing = spacing};
    std::vector<int64_t> visited;
    for (const auto& point : sampling_path(schedule, config)) visited.push_back(point.time);
    return visited;
  };
  EXPECT_EQ(times("trailing", 4), (std::vector<int64_t>{999, 749, 499, 249, -1}));
  EXPECT_EQ(times("leading", 4), (std::vector<int64_t>{750, 500, 250, 0, -1}));
  EXPECT_EQ(times("compvis", 4), (std::vector<int64_t>{751, 501, 251, 1, -1}));
  EXPECT_EQ(times("trailing", 3), (std::vector<int64_t>{999, 665, 332, -1}));
  const auto all = times("trailing", 1000);
  EXPECT_EQ(all.front(), 999);
  EXPECT_EQ(all[999], 0);
  EXPECT_EQ(sampling_path(schedule, {.last = "first"}).back().abar, schedule.abar[0]);
  EXPECT_EQ(sampling_path(schedule, {.last = "one"}).back().abar, 1);
}

/// With as much noise as DDPM, DDIM is DDPM.
TEST(Samplers, DdimAtEtaOneIsDdpm) {
  const auto schedule = make_noise_schedule({});
  const auto one = plan_sampling(schedule, {.sampler = "ddim", .steps = 37, .eta = 1});
  const auto other = plan_sampling(schedule, {.sampler = "ddpm", .steps = 37});
  for (size_t i = 0; i < one.size(); ++i) {
    EXPECT_NEAR(one[i].sample, other[i].sample, 1e-12);
    EXPECT_NEAR(one[i].data, other[i].data, 1e-12);
    EXPECT_NEAR(one[i].fresh, other[i].fresh, 1e-12);
  }
}

/// A network that knows the data is at it after the last step, whatever the sampler.
TEST(Samplers, AllEndAtDataThatIsKnown) {
  const auto schedule = make_noise_schedule({"cosine"});
  const auto data = fixed_noise(77);
  for (const auto& kind : sampler_kinds()) {
    const auto steps = plan_sampling(schedule, {.sampler = kind.name, .steps = 20});
    const Denoiser denoiser = [&](const Tensor& x, const Tensor& times) {
      const double abar = schedule.abar.at(times[0].item<int64_t>());
      return (x - std::sqrt(abar) * data) / std::sqrt(1 - abar);
    };
    const auto samples =
        sample_latents({steps, prediction_kind("eps"), fixed_noise(0)}, denoiser, fixed_noise);
    EXPECT_TRUE(at::allclose(samples, data, 1e-6, 1e-6)) << kind.name;
  }
}

TEST(Samplers, SettingsThatDoNotFitAreNamed) {
  const auto schedule = make_noise_schedule({"linear", 20});
  const auto error = [&](const SampleConfig& config) {
    return error_of([&] { plan_sampling(schedule, config); });
  };
  EXPECT_NE(error({.steps = 21}).find("sample.steps"), std::string::npos);
  EXPECT_NE(error({.steps = 20, .spacing = "compvis"}).find("leaves out"), std::string::npos);
  EXPECT_NE(error({.steps = 0}).find("sample.steps"), std::string::npos);
  EXPECT_NE(error({.sampler = "ddpm", .steps = 5, .eta = 0.5}).find("sample.eta"),
            std::string::npos);
  EXPECT_NE(error({.sampler = "ddmi", .steps = 5}).find("ddim"), std::string::npos);
  EXPECT_NE(error({.steps = 5, .spacing = "even"}).find("sample.spacing"), std::string::npos);
}

}  // namespace
}  // namespace nsvq
