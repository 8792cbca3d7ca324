#pragma once

#include "nsvq/quantizers/vq.h"

namespace nsvq {

/// The paper's quantizer: plain vector quantization plus the non-stationary embedding loss, weight
/// alpha, which lets codes near a latent follow it although another code won.
class NonStationaryQuantizer : public VectorQuantizer {
 public:
  using VectorQuantizer::VectorQuantizer;

 protected:
  Quantized quantize_wide(const torch::Tensor& latents, const QuantizerStep& step) override;
};

QuantizerKind nsvq_kind();

}  // namespace nsvq
