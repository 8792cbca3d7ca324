#include "nsvq/diffusion/noise_schedule.h"

namespace nsvq {

/// Ho et al. 2020, and the paper.
NoiseScheduleKind linear_schedule_kind() {
  return {"linear", "beta grows linearly", [](const NoiseConfig& config) {
            return even_steps(config.beta_start, config.beta_end, config.times);
          }};
}

}  // namespace nsvq
