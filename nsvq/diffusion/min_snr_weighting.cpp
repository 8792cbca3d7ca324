#include "nsvq/diffusion/weighting.h"

namespace nsvq {

/// Hang et al. 2023: squared errors of the data by the signal-to-noise ratio, but no more than
/// gamma.
WeightingKind min_snr_weighting_kind() {
  return {"min-snr", "squared errors of the data by the signal-to-noise ratio, up to a limit",
          [](const torch::Tensor& snr, const PredictionKind& prediction,
             const ObjectiveConfig& config) {
            return snr.clamp_max(config.of<MinSnrConfig>().gamma) / prediction.error_scale(snr);
          },
          [](ObjectiveConfig& config) {
            return std::vector<Option>{{"diffusion.min_snr_gamma", &config.of<MinSnrConfig>().gamma,
                                        "min-snr: largest signal-to-noise ratio that counts",
                                        Range::between(1e-30, 1e30)}};
          }};
}

}  // namespace nsvq
