#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "nsvq/recipe/tokenizer_config.h"

namespace nsvq {

/// Signs of a collapsed codebook and of training that diverges, measured over an epoch or a window
/// of steps; NaN if not measured.
struct HealthSigns {
  double utilisation;        ///< share of codes assigned at least once
  double latent_norm;        ///< mean L2 norm of the latents
  double neighbours;         ///< mean effective number of neighbours; also NaN without an NS loss
  double pixel_error = NAN;  ///< mean absolute or squared error of images in [-1, 1]
};

struct AlarmSign {
  std::string name;  ///< diverging, unused_codes, losing_codes, latent_norm, one_hot, uniform
  std::string text;  ///< what was seen, and which settings of the run usually help
};

/// The alarms of a codebook of `codes` codes after the last entry of `history`: one an epoch or,
/// where `window` is not 0, one for each so many steps (window_steps in nsvq/recipe/alarm.h). A
/// sign raises its alarm when it was present in alarm.epochs entries in a row. What else is seen of
/// training that diverges follows from that, and raises none.
std::vector<AlarmSign> alarms(const TokenizerConfig& config,
                              const std::vector<HealthSigns>& history, int64_t codes,
                              int64_t window = 0);

/// What usually helps against a sign, by its name: the settings that have an effect in a
/// run of `config`, as "a smaller loss.perceptual; a lower optimizer.lr".
std::string remedies(const std::string& sign, const TokenizerConfig& config);

}  // namespace nsvq
