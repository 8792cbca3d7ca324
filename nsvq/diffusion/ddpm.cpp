#include <cmath>

#include "nsvq/diffusion/sampler.h"

namespace nsvq {

namespace {

/// Ho et al. 2020, equations 6 and 7: the posterior of the next level given x and x0. Steps that
/// skip times add the noise of all of them.
SamplerStep ddpm_step(const PathPoint& at, const PathPoint& to) {
  const double alpha = at.abar / to.abar, beta = 1 - alpha;
  return {.at = at,
          .sample = std::sqrt(alpha) * (1 - to.abar) / (1 - at.abar),
          .data = to.signal() * beta / (1 - at.abar),
          .fresh = std::sqrt((1 - to.abar) / (1 - at.abar) * beta)};
}

}  // namespace

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

}  // namespace nsvq
