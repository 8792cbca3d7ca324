#pragma once

#include "nsvq/quantizers/vq.h"

namespace nsvq {

/// Codes and latents of length 1 (VQGAN-FC): search, losses and the decoder's input use the
/// normalised vectors. The few channels that the name stands for are model.latent_dim.
class FactorisedQuantizer : public VectorQuantizer {
 public:
  FactorisedQuantizer(const QuantizerConfig& config, int64_t latent_dim);

  torch::Tensor decode(const torch::Tensor& indices) override;
  torch::Tensor code_vectors() override;
  Distance distance() const override { return Distance::cosine; }
  void initialise_from(const torch::Tensor& latents, uint64_t seed) override;

 protected:
  Quantized quantize_wide(const torch::Tensor& latents, const QuantizerStep& step) override;
  torch::Tensor encode_wide(const torch::Tensor& latents) override;
};

QuantizerKind factorised_kind();

}  // namespace nsvq
