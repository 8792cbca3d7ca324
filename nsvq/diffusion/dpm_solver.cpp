#include <cmath>

#include "nsvq/diffusion/sampler.h"

namespace nsvq {

namespace {

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

}  // namespace

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

}  // namespace nsvq
