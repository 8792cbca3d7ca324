#include "nsvq/diffusion/prediction.h"

namespace nsvq {

/// Salimans and Ho 2022: v = signal eps - noise x0, which stays well-defined where no signal is
/// left.
PredictionKind v_prediction_kind() {
  return {"v", "the velocity from data to noise",
          [](const torch::Tensor& data, const torch::Tensor& noise, const NoiseLevel& level) {
            return level.signal * noise - level.noise * data;
          },
          [](const torch::Tensor& output, const torch::Tensor& noisy, const NoiseLevel& level) {
            return level.signal * noisy - level.noise * output;
          },
          [](const torch::Tensor& snr) { return snr + 1; }};
}

}  // namespace nsvq
