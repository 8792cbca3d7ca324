#include <cmath>

#include "nsvq/diffusion/noise_schedule.h"

namespace nsvq {

/// CompVis' latent-diffusion, where it is called "linear".
NoiseScheduleKind sqrt_linear_schedule_kind() {
  return {"sqrt-linear", "the square root of beta grows linearly", [](const NoiseConfig& config) {
            auto betas =
                even_steps(std::sqrt(config.beta_start), std::sqrt(config.beta_end), config.times);
            for (auto& beta : betas) beta *= beta;
            return betas;
          }};
}

}  // namespace nsvq
