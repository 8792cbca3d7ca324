#pragma once

#include <torch/nn/modules/linear.h>

#include "nsvq/quantizers/mapped.h"

namespace nsvq {

/// SimVQ: the codes are a trained linear map, with bias, of a Gaussian codebook that stays as it
/// was drawn.
class SimVq : public MappedQuantizer {
 public:
  SimVq(const QuantizerConfig& config, int64_t latent_dim);

  int64_t codes() const override { return frozen_.size(0); }

 protected:
  torch::Tensor mapped_codes() override;

 private:
  torch::Tensor frozen_;  ///< [K, d]
  torch::nn::Linear projection_;
};

/// SimVQ with the NS loss, weight alpha, which trains the linear map alone.
class NonStationarySimVq : public SimVq {
 public:
  using SimVq::SimVq;

 protected:
  Quantized quantize_wide(const torch::Tensor& latents, const QuantizerStep& step) override;
};

QuantizerKind simvq_kind();
QuantizerKind simvq_ns_kind();

}  // namespace nsvq
