#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nsvq/core/config.h"

namespace nsvq {

/// Signs of codebook collapse, measured over an epoch; NaN if not measured.
struct HealthSigns {
  double utilisation;  ///< share of codes assigned at least once in the epoch
  double latent_norm;  ///< mean L2 norm of the latents
  double neighbours;   ///< mean effective number of neighbours; also NaN without an NS loss
};

struct AlarmSign {
  std::string name;  ///< unused_codes, losing_codes, latent_norm, one_hot or uniform
  std::string text;  ///< what was seen, and which setting usually helps
};

/// The alarms after the last epoch of `history` (one entry per epoch) for a codebook of `codes`
/// codes. A sign raises its alarm when it was present in config.epochs epochs in a row.
std::vector<AlarmSign> alarms(const AlarmConfig& config, const std::vector<HealthSigns>& history,
                              int64_t codes);

}  // namespace nsvq
