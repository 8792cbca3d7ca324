#include "nsvq/diffusion/prediction.h"

#include <utility>

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
