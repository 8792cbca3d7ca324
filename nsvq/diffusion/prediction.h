#pragma once

#include <torch/types.h>

#include <string>
#include <vector>

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

}  // namespace nsvq
