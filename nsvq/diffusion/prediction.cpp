#include "nsvq/diffusion/prediction.h"

#include "nsvq/core/lookup.h"

namespace nsvq {

const std::vector<PredictionKind>& prediction_kinds() {
  static const std::vector<PredictionKind> kinds = {eps_prediction_kind(), v_prediction_kind()};
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
