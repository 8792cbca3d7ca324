#pragma once

#include "nsvq/quantizers/quantizer.h"

namespace nsvq {

/// No quantizer: latents reach the decoder unchanged, so that the model is a continuous
/// autoencoder. It has no codes, no tokens, no loss and nothing that trains.
class NoQuantizer : public Quantizer {
 public:
  NoQuantizer(const QuantizerConfig& config, int64_t latent_dim);

  /// Throws UserError, as do the functions that encode: there are no indices.
  torch::Tensor decode(const torch::Tensor& indices) override;
  int64_t codes() const override { return 0; }
  Assignment assign_without_waiting(const torch::Tensor& latents) override;

 protected:
  Quantized quantize_wide(const torch::Tensor& latents, const QuantizerStep& step) override;
  torch::Tensor encode_wide(const torch::Tensor& latents) override;
};

QuantizerKind none_kind();

}  // namespace nsvq
