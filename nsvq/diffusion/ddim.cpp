#include <algorithm>
#include <cmath>

#include "nsvq/diffusion/sampler.h"

namespace nsvq {

namespace {

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

}  // namespace

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

}  // namespace nsvq
