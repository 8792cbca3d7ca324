#include "nsvq/diffusion/prediction.h"

#include "nsvq/core/lookup.h"

namespace nsvq {

namespace {

/// Ho et al. 2020, and the paper.
PredictionKind eps_prediction() {
  return {"eps", "the noise",
          [](const torch::Tensor& /*data*/, const torch::Tensor& noise,
             const NoiseLevel& /*level*/) { return noise; },
          [](const torch::Tensor& output, const torch::Tensor& noisy, const NoiseLevel& level) {
            return (noisy - level.noise * output) / level.signal;
          },
          [](const torch::Tensor& snr) { return snr; }};
}

/// Salimans and Ho 2022: v = signal eps - noise x0, which stays well-defined where no signal is
/// left.
PredictionKind v_prediction() {
  return {"v", "the velocity from data to noise",
          [](const torch::Tensor& data, const torch::Tensor& noise, const NoiseLevel& level) {
            return level.signal * noise - level.noise * data;
          },
          [](const torch::Tensor& output, const torch::Tensor& noisy, const NoiseLevel& level) {
            return level.signal * noisy - level.noise * output;
          },
          [](const torch::Tensor& snr) { return snr + 1; }};
}

}  // namespace

const std::vector<PredictionKind>& prediction_kinds() {
  static const std::vector<PredictionKind> kinds = {eps_prediction(), v_prediction()};
  return kinds;
}

const PredictionKind& prediction_kind(const std::string& name) {
  return find_named(prediction_kinds(), "prediction", name, "diffusion.prediction");
}

torch::Tensor add_noise(const torch::Tensor& data, const torch::Tensor& noise,
                        const NoiseLevel& level) {
  return level.signal * data + level.noise * noise;
}

}  // namespace nsvq
