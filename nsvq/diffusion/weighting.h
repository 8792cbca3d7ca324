#pragma once

#include <torch/types.h>

#include <string>
#include <vector>

#include "nsvq/diffusion/prediction.h"
#include "nsvq/settings/member_settings.h"
#include "nsvq/settings/option.h"

namespace nsvq {

/// Settings of the loss. A weighting's own settings are a struct in this header, reached by
/// `of<MinSnrConfig>()`.
struct ObjectiveConfig : MemberSettings {
  std::string prediction = "eps";
  std::string weighting = "none";
};

struct MinSnrConfig {
  double gamma = 5;
};

/// Rows diffusion.prediction, diffusion.weighting and those of each weighting.
std::vector<Option> objective_options(ObjectiveConfig& config);

/// How much each time counts in the loss.
struct WeightingKind {
  std::string name;     ///< in recipes, diffusion.weighting
  std::string summary;  ///< in a line
  /// Weights of the squared error of a network's output, of the shape of `snr`.
  torch::Tensor (*weights)(const torch::Tensor& snr, const PredictionKind& prediction,
                           const ObjectiveConfig& config);
  std::vector<Option> (*options)(ObjectiveConfig&) = nullptr;  ///< its own settings
};

const std::vector<WeightingKind>& weighting_kinds();
/// Throws UserError naming the valid ones.
const WeightingKind& weighting_kind(const std::string& name);

}  // namespace nsvq
