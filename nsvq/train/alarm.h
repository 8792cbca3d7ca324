#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nsvq/core/config.h"

namespace nsvq {

/// What an epoch shows of a codebook's health; NaN where it was not measured.
struct HealthSigns {
  double utilisation;  ///< share of codes that won at least once in the epoch
  double latent_norm;  ///< mean L2 norm of the latents
  double neighbours;   ///< mean effective number of neighbours; NaN too where no NS loss uses them
};

struct AlarmSign {
  std::string name;  ///< unused_codes, losing_codes, latent_norm, one_hot or uniform
  std::string text;  ///< a sentence that names the setting that usually cures it
};

/// Signs of collapse that hold now, after the last of `history` (one entry an epoch), in a codebook
/// of `codes` codes. Each must have lasted config.epochs epochs; empty: all is well.
std::vector<AlarmSign> alarms(const AlarmConfig& config, const std::vector<HealthSigns>& history,
                              int64_t codes);

}  // namespace nsvq
