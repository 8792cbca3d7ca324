#pragma once

#include <torch/nn/modules/linear.h>

#include "nsvq/quantizers/quantizer.h"

namespace nsvq {

struct GumbelConfig {
  double temperature = 0.9;
  double last_temperature = 1e-6;
  int64_t anneal_steps = 1000000;
  double kl = 5e-4;
};

/// Gumbel quantization (taming-transformers, DALL-E): logits of the codes are a linear projection
/// of the latent; training draws a code by Gumbel noise, one-hot straight through a softmax whose
/// temperature falls along a cosine; evaluation takes the largest logit. The loss is the divergence
/// of the softmax from equal use.
class GumbelQuantizer : public Quantizer {
 public:
  GumbelQuantizer(const QuantizerConfig& config, int64_t latent_dim);

  torch::Tensor decode(const torch::Tensor& indices) override;
  int64_t codes() const override { return codebook_.size(0); }

 protected:
  Quantized quantize_wide(const torch::Tensor& latents, const QuantizerStep& step) override;
  torch::Tensor encode_wide(const torch::Tensor& latents) override;

 private:
  GumbelConfig settings_;
  torch::nn::Linear projection_{nullptr};
  torch::Tensor codebook_;  ///< [K, d]; latents are not compared with it
};

/// From `temperature` to `last_temperature` in `anneal_steps`, along half a cosine.
torch::Tensor gumbel_temperature(const GumbelConfig& config, const torch::Tensor& step);

QuantizerKind gumbel_kind();

}  // namespace nsvq
