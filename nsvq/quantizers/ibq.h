#pragma once

#include "nsvq/quantizers/vq.h"

namespace nsvq {

struct IbqConfig {
  double entropy = 0.05;
  double entropy_temperature = 0.01;
  double temperature = 1;
};

/// Index backpropagation quantization (Shi et al., 2024): the code of the largest dot product with
/// the latent, one-hot straight through the softmax of the products, so that every code has a
/// gradient. Loss: the double quantization loss, |z_q - z|^2 + |sg c - z|^2 + beta |c - sg z|^2
/// with z_q through the softmax and c the winning code, and the entropy loss, mean H(p) - H(mean
/// p).
class IndexBackpropagationQuantizer : public VectorQuantizer {
 public:
  IndexBackpropagationQuantizer(const QuantizerConfig& config, int64_t latent_dim);

 protected:
  Quantized quantize_wide(const torch::Tensor& latents, const QuantizerStep& step) override;
  torch::Tensor encode_wide(const torch::Tensor& latents) override;

 private:
  torch::Tensor entropy_loss(const torch::Tensor& flat, Group* group);
  torch::Tensor no_offsets() const;

  IbqConfig settings_;
};

QuantizerKind ibq_kind();

}  // namespace nsvq
