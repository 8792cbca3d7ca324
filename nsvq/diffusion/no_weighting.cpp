#include "nsvq/diffusion/weighting.h"

namespace nsvq {

WeightingKind no_weighting_kind() {
  return {"none", "squared errors of the output at all times alike",
          [](const torch::Tensor& snr, const PredictionKind& /*prediction*/,
             const ObjectiveConfig& /*config*/) { return at::ones_like(snr); }};
}

}  // namespace nsvq
