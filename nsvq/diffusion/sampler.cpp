#include "nsvq/diffusion/sampler.h"

#include <algorithm>
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

/// Song et al. 2021, equation 12: to the data that is seen, the part of the noise that is left, and
/// fresh noise of deviation sigma.
SamplerStep ddim_step(const PathPoint& at, const PathPoint& to, double eta) {
  const double sigma =
      eta * std::sqrt((1 - to.abar) / (1 - at.abar)) * std::sqrt(1 - at.abar / to.abar);
  const double direction = std::sqrt(std::max(1 - to.abar - sigma * sigma, 0.0));
  const double per_sample = direction / at.noise();  // eps = (x - signal x0) / noise
  return {.at = at,
          .sample = per_sample,
          .data = to.signal() - per_sample * at.signal(),
          .fresh = sigma};
}

SamplerKind ddim_kind() {
  return {"ddim", "deterministic at eta 0",
          [](const std::vector<PathPoint>& path, const SampleConfig& config) {
            std::vector<SamplerStep> steps;
            for (size_t i = 0; i + 1 < path.size(); ++i) {
              steps.push_back(ddim_step(path[i], path[i + 1], config.eta));
            }
            return steps;
          },
          /*takes_eta=*/true};
}

/// Ho et al. 2020, equations 6 and 7: the posterior of the next level given x and x0. Steps that
/// skip times add the noise of all of them.
SamplerStep ddpm_step(const PathPoint& at, const PathPoint& to) {
  const double alpha = at.abar / to.abar, beta = 1 - alpha;
  return {.at = at,
          .sample = std::sqrt(alpha) * (1 - to.abar) / (1 - at.abar),
          .data = to.signal() * beta / (1 - at.abar),
          .fresh = std::sqrt((1 - to.abar) / (1 - at.abar) * beta)};
}

SamplerKind ddpm_kind() {
  return {"ddpm", "fresh noise in every step; takes many",
          [](const std::vector<PathPoint>& path, const SampleConfig& /*config*/) {
            std::vector<SamplerStep> steps;
            for (size_t i = 0; i + 1 < path.size(); ++i) {
              steps.push_back(ddpm_step(path[i], path[i + 1]));
            }
            return steps;
          }};
}

/// Half the logarithm of the signal-to-noise ratio; infinite without noise.
double half_log_snr(const PathPoint& point) {
  return 0.5 * (std::log(point.abar) - std::log1p(-point.abar));
}

/// Lu et al. 2022, DPM-Solver++(2M): a straight line through the data seen in this step and in the
/// step before, integrated over the half log SNR. `before` is null where the step is of first
/// order.
SamplerStep dpm_solver_step(const PathPoint* before, const PathPoint& at, const PathPoint& to) {
  const double h = half_log_snr(to) - half_log_snr(at);
  const double whole = -to.signal() * std::expm1(-h);  // h is infinite for a path to no noise
  double ahead = 0;                                    // how far beyond this step's data
  if (before) ahead = h / (2 * (half_log_snr(at) - half_log_snr(*before)));
  return {.at = at,
          .sample = to.noise() / at.noise(),
          .data = whole * (1 + ahead),
          .previous = -whole * ahead};
}

/// The first step has no step before it, and the last one goes to where the line is infinitely
/// long: both are of first order.
SamplerKind dpm_solver_kind() {
  return {"dpm-solver++", "second order, deterministic; good from some 15 steps on",
          [](const std::vector<PathPoint>& path, const SampleConfig& /*config*/) {
            std::vector<SamplerStep> steps;
            for (size_t i = 0; i + 1 < path.size(); ++i) {
              const bool first_order = i == 0 || i + 2 == path.size();
              steps.push_back(
                  dpm_solver_step(first_order ? nullptr : &path[i - 1], path[i], path[i + 1]));
            }
            return steps;
          }};
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

std::vector<SamplerStep> plan_sampling(const NoiseSchedule& schedule, const SampleConfig& config,
                                       std::optional<int64_t> latest) {
  auto checked = config;
  require_in_range(sample_options(checked));
  const auto& kind = sampler_kind(config.sampler);
  if (config.eta > 0 && !kind.takes_eta) {
    throw UserError("sample.eta is {}, but {} takes none; leave it 0 or use ddim", config.eta,
                    kind.name);
  }
  auto path = sampling_path(schedule, config);
  if (latest) std::erase_if(path, [&](const PathPoint& point) { return point.time > *latest; });
  return kind.steps(path, config);
}

}  // namespace nsvq
