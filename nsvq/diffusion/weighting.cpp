#include "nsvq/diffusion/weighting.h"

#include <utility>

#include "nsvq/core/lookup.h"

namespace nsvq {

namespace {

WeightingKind no_weighting() {
  return {"none", "squared errors of the output at all times alike",
          [](const torch::Tensor& snr, const PredictionKind& /*prediction*/,
             const ObjectiveConfig& /*config*/) { return at::ones_like(snr); }};
}

/// Hang et al. 2023: squared errors of the data by the signal-to-noise ratio, but no more than
/// gamma.
WeightingKind min_snr_weighting() {
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

}  // namespace

const std::vector<WeightingKind>& weighting_kinds() {
  static const std::vector<WeightingKind> kinds = {no_weighting(), min_snr_weighting()};
  return kinds;
}

const WeightingKind& weighting_kind(const std::string& name) {
  return find_named(weighting_kinds(), "weighting", name, "diffusion.weighting");
}

std::vector<Option> objective_options(ObjectiveConfig& config) {
  std::vector<Option> rows = {
      {"diffusion.prediction", &config.prediction,
       "what the network gives for noisy latents: eps, the noise, or v, the velocity",
       Range::one_of(names_of(prediction_kinds()))},
      {"diffusion.weighting", &config.weighting,
       "how much each time counts in the loss: none, all alike, or min-snr",
       Range::one_of(names_of(weighting_kinds()))},
  };
  for (const auto& kind : weighting_kinds()) {
    if (!kind.options) continue;
    for (auto& row : kind.options(config)) rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace nsvq
