#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "nsvq/recipe/alarm.h"

namespace nsvq {

/// Signs of a collapsed codebook and of training that diverges, measured over an epoch; NaN if not
/// measured.
struct HealthSigns {
  double utilisation;        ///< share of codes assigned at least once in the epoch
  double latent_norm;        ///< mean L2 norm of the latents
  double neighbours;         ///< mean effective number of neighbours; also NaN without an NS loss
  double pixel_error = NAN;  ///< mean absolute or squared error of images in [-1, 1]
};

struct AlarmSign {
  std::string name;  ///< diverging, unused_codes, losing_codes, latent_norm, one_hot, uniform
  std::string text;  ///< what was seen, and which setting usually helps
};

/// The alarms after the last epoch of `history` (one entry per epoch) for a codebook of `codes`
/// codes. A sign raises its alarm when it was present in config.epochs epochs in a row. What else
/// is seen of training that diverges follows from that, and raises none.
std::vector<AlarmSign> alarms(const AlarmConfig& config, const std::vector<HealthSigns>& history,
                              int64_t codes);

}  // namespace nsvq
