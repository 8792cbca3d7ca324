#include "nsvq/diffusion/prediction.h"

namespace nsvq {

/// Ho et al. 2020, and the paper.
PredictionKind eps_prediction_kind() {
  return {"eps", "the noise",
          [](const torch::Tensor& /*data*/, const torch::Tensor& noise,
             const NoiseLevel& /*level*/) { return noise; },
          [](const torch::Tensor& output, const torch::Tensor& noisy, const NoiseLevel& level) {
            return (noisy - level.noise * output) / level.signal;
          },
          [](const torch::Tensor& snr) { return snr; }};
}

}  // namespace nsvq
