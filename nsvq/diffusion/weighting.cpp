#include "nsvq/diffusion/weighting.h"

#include <utility>

#include "nsvq/core/lookup.h"

namespace nsvq {

const std::vector<WeightingKind>& weighting_kinds() {
  static const std::vector<WeightingKind> kinds = {no_weighting_kind(), min_snr_weighting_kind()};
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
