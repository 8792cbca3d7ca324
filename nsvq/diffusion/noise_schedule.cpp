#include "nsvq/diffusion/noise_schedule.h"

#include "nsvq/core/error.h"
#include "nsvq/core/lookup.h"

namespace nsvq {

const std::vector<NoiseScheduleKind>& noise_schedule_kinds() {
  static const std::vector<NoiseScheduleKind> kinds = {
      linear_schedule_kind(), sqrt_linear_schedule_kind(), cosine_schedule_kind()};
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
