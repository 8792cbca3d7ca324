#pragma once

#include <torch/types.h>

#include <string>
#include <vector>

#include "nsvq/settings/option.h"

namespace nsvq {

/// The parts of data and noise in noisy data, x = signal x0 + noise eps: tensors that broadcast
/// over [B, C, h, w].
struct NoiseLevel {
  torch::Tensor signal, noise;

  /// signal^2 / noise^2.
  torch::Tensor snr() const { return signal.square() / noise.square(); }
};

/// What a network is trained to predict from noisy data.
struct PredictionKind {
  std::string name;     ///< in recipes, diffusion.prediction
  std::string summary;  ///< in a line
  /// What the output is to be, for data x0 and noise eps.
  torch::Tensor (*target)(const torch::Tensor& data, const torch::Tensor& noise,
                          const NoiseLevel& level);
  /// The data that an output for noisy data stands for.
  torch::Tensor (*data)(const torch::Tensor& output, const torch::Tensor& noisy,
                        const NoiseLevel& level);
  /// error(output)^2 / error(x0)^2 at this signal-to-noise ratio.
  torch::Tensor (*error_scale)(const torch::Tensor& snr);
};

const std::vector<PredictionKind>& prediction_kinds();
/// Throws UserError naming the valid ones.
const PredictionKind& prediction_kind(const std::string& name);

/// signal x0 + noise eps.
torch::Tensor add_noise(const torch::Tensor& data, const torch::Tensor& noise,
                        const NoiseLevel& level);

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
