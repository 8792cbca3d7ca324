#include "nsvq/diffusion/noise_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "nsvq/core/error.h"
#include "nsvq/core/lookup.h"

namespace nsvq {

namespace {

/// Ho et al. 2020, and the paper.
NoiseScheduleKind linear_schedule() {
  return {"linear", "beta grows linearly", [](const NoiseConfig& config) {
            return even_steps(config.beta_start, config.beta_end, config.times);
          }};
}

/// CompVis' latent-diffusion, where it is called "linear".
NoiseScheduleKind sqrt_linear_schedule() {
  return {"sqrt-linear", "the square root of beta grows linearly", [](const NoiseConfig& config) {
            auto betas =
                even_steps(std::sqrt(config.beta_start), std::sqrt(config.beta_end), config.times);
            for (auto& beta : betas) beta *= beta;
            return betas;
          }};
}

/// Nichol and Dhariwal 2021: abar is a squared cosine, and no time adds more than 0.999.
NoiseScheduleKind cosine_schedule() {
  return {"cosine", "what is left of the data falls as a squared cosine",
          [](const NoiseConfig& config) {
            const auto left = [&](int64_t time) {
              constexpr double offset = 0.008;  // so that the first times add some noise
              const double share = static_cast<double>(time) / static_cast<double>(config.times);
              return std::pow(std::cos((share + offset) / (1 + offset) * std::numbers::pi / 2), 2);
            };
            std::vector<double> betas;
            for (int64_t i = 0; i < config.times; ++i) {
              betas.push_back(std::min(1 - left(i + 1) / left(i), 0.999));
            }
            return betas;
          }};
}

}  // namespace

const std::vector<NoiseScheduleKind>& noise_schedule_kinds() {
  static const std::vector<NoiseScheduleKind> kinds = {linear_schedule(), sqrt_linear_schedule(),
                                                       cosine_schedule()};
  return kinds;
}

std::vector<Option> noise_options(NoiseConfig& config) {
  return {
      {"diffusion.schedule", &config.schedule,
       "how noise grows: linear in beta, sqrt-linear (CompVis' \"linear\"), or cosine",
       Range::one_of(names_of(noise_schedule_kinds()))},
      {"diffusion.times", &config.times, "times of the diffusion process", Range::between(2, 1e6)},
      {"diffusion.beta_start", &config.beta_start,
       "linear, sqrt-linear: share of variance that the first time adds", Range::between(0, 1)},
      {"diffusion.beta_end", &config.beta_end,
       "linear, sqrt-linear: share of variance that the last time adds", Range::between(0, 1)},
  };
}

NoiseSchedule make_noise_schedule(const NoiseConfig& config) {
  auto checked = config;
  require_in_range(noise_options(checked));
  const auto& kind =
      find_named(noise_schedule_kinds(), "schedule", config.schedule, "diffusion.schedule");
  if (config.schedule != "cosine" && config.beta_start > config.beta_end) {
    throw UserError("diffusion.beta_start {} is above diffusion.beta_end {}: noise must grow",
                    config.beta_start, config.beta_end);
  }
  NoiseSchedule schedule;
  double left = 1;
  for (const double beta : kind.betas(config)) {
    left *= 1 - beta;
    if (!(left < 1) || !(left > 0)) {
      throw UserError(
          "diffusion.beta_start {} and diffusion.beta_end {}: by time {} of {} {}; keep both "
          "between 0 and 1",
          config.beta_start, config.beta_end, schedule.times(), config.times,
          left < 1 ? "no signal is left" : "there is no noise");
    }
    schedule.abar.push_back(left);
  }
  return schedule;
}

std::vector<double> even_steps(double first, double last, int64_t count) {
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i) {
    const double share = count > 1 ? static_cast<double>(i) / static_cast<double>(count - 1) : 0;
    values.push_back(first + share * (last - first));
  }
  return values;
}

}  // namespace nsvq
