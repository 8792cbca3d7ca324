#pragma once

#include "nsvq/quantizers/vq.h"

namespace nsvq {

struct SqvaeConfig {
  double variance = 21;
  double anneal = 1e-5;
};

/// SQ-VAE with Gaussian quantization (Takida et al., 2022): a latent is a code plus noise of a
/// learned variance, 1 + exp(s). Training takes a Gumbel-softmax mean of the codes, whose
/// temperature falls with the steps; evaluation the nearest code. The loss is the paper's
/// divergence per image: (sum p log p + sum |z - z_q|^2 / (2 variance)) / B.
class StochasticQuantizer : public VectorQuantizer {
 public:
  StochasticQuantizer(const QuantizerConfig& config, int64_t latent_dim);

 protected:
  Quantized quantize_wide(const torch::Tensor& latents, const QuantizerStep& step) override;

 private:
  SqvaeConfig settings_;
  torch::Tensor log_variance_;  ///< s, a scalar
};

QuantizerKind sqvae_kind();

}  // namespace nsvq
