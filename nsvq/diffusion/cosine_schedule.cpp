#include <algorithm>
#include <cmath>
#include <numbers>

#include "nsvq/diffusion/noise_schedule.h"

namespace nsvq {

/// Nichol and Dhariwal 2021: abar is a squared cosine, and no time adds more than 0.999.
NoiseScheduleKind cosine_schedule_kind() {
  return {"cosine", "what is left of the data falls as a squared cosine",
          [](const NoiseConfig& config) {
            const auto left = [&](int64_t time) {
              constexpr double offset = 0.008;  // so that the first times add some noise
              const double place = static_cast<double>(time) / static_cast<double>(config.times);
              return std::pow(std::cos((place + offset) / (1 + offset) * std::numbers::pi / 2), 2);
            };
            std::vector<double> betas;
            for (int64_t i = 0; i < config.times; ++i) {
              betas.push_back(std::min(1 - left(i + 1) / left(i), 0.999));
            }
            return betas;
          }};
}

}  // namespace nsvq
