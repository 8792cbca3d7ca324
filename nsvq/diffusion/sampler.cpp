#include "nsvq/diffusion/sampler.h"

#include <cmath>

#include "nsvq/core/error.h"
#include "nsvq/core/lookup.h"

namespace nsvq {

namespace {

/// Time number `i` of `steps`, counted from the data, of a process of `times`.
int64_t visited_time(const std::string& spacing, int64_t i, int64_t steps, int64_t times) {
  if (spacing == "trailing") return (i + 1) * times / steps - 1;
  return i * times / steps + (spacing == "compvis" ? 1 : 0);
}

}  // namespace

double PathPoint::signal() const { return std::sqrt(abar); }
double PathPoint::noise() const { return std::sqrt(1 - abar); }

const std::vector<SamplerKind>& sampler_kinds() {
  static const std::vector<SamplerKind> kinds = {ddim_kind(), ddpm_kind(), dpm_solver_kind()};
  return kinds;
}

const SamplerKind& sampler_kind(const std::string& name) {
  return find_named(sampler_kinds(), "sampler", name, "sample.sampler");
}

std::vector<Option> sample_options(SampleConfig& config) {
  constexpr auto no_effect = Effect::not_on_result;
  return {
      {"sample.sampler", &config.sampler, "how images are sampled (docs/generation.md)",
       Range::one_of(names_of(sampler_kinds())), no_effect},
      {"sample.steps", &config.steps, "steps of sampling, at most diffusion.times",
       Range::between(1, 1e6), no_effect},
      {"sample.eta", &config.eta,
       "ddim: share of fresh noise in each step; 0: none, 1: as much as ddpm", Range::between(0, 1),
       no_effect},
      {"sample.spacing", &config.spacing,
       "which times are visited: trailing up to the last one, leading from 0 on, compvis from 1 on",
       Range::one_of(kSpacings), no_effect},
      {"sample.last", &config.last,
       "after the last step no noise is left (one), or that of the first time (first)",
       Range::one_of(kLasts), no_effect},
  };
}

std::vector<PathPoint> sampling_path(const NoiseSchedule& schedule, const SampleConfig& config) {
  const int64_t times = schedule.times(), steps = config.steps;
  const int64_t most = config.spacing == "compvis" ? times - 1 : times;
  if (steps > most) {
    throw UserError("sample.steps: {} steps, but the model's process has {} times{}", steps, times,
                    most < times ? ", of which compvis leaves out the first" : "");
  }
  std::vector<PathPoint> path;
  for (int64_t i = steps - 1; i >= 0; --i) {
    const int64_t time = visited_time(config.spacing, i, steps, times);
    path.push_back({time, schedule.abar.at(time)});
  }
  path.push_back({-1, config.last == "one" ? 1 : schedule.abar.front()});
  return path;
}

std::vector<SamplerStep> plan_sampling(const NoiseSchedule& schedule, const SampleConfig& config) {
  auto checked = config;
  require_in_range(sample_options(checked));
  const auto& kind = sampler_kind(config.sampler);
  if (config.eta > 0 && !kind.takes_eta) {
    throw UserError("sample.eta is {}, but {} takes none; leave it 0 or use ddim", config.eta,
                    kind.name);
  }
  return kind.steps(sampling_path(schedule, config), config);
}

}  // namespace nsvq
