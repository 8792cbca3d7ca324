#pragma once

#include "nsvq/quantizers/simvq.h"

namespace nsvq {

/// SimVQ with the NS loss, weight alpha, which trains the linear map alone.
class NonStationarySimVq : public SimVq {
 public:
  using SimVq::SimVq;

 protected:
  Quantized quantize_wide(const torch::Tensor& latents, const QuantizerStep& step) override;
};

}  // namespace nsvq
