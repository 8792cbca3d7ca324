#pragma once

#include <torch/nn/modules/linear.h>

#include "nsvq/quantizers/quantizer.h"

namespace nsvq {

/// VQGAN-LC (Zhu et al., 2024): codes are a trained linear projection of frozen features [K, dim]
/// of images. A run reads the features from quantizer.features.file when it begins; from then on
/// they are in its checkpoints. Loss: |z - sg c|^2 + 0.33 |sg z - c|^2.
class FeatureQuantizer : public Quantizer {
 public:
  FeatureQuantizer(const QuantizerConfig& config, int64_t latent_dim);

  torch::Tensor decode(const torch::Tensor& indices) override;
  int64_t codes() const override { return features_.size(0); }
  torch::Tensor code_vectors() override;
  void begin() override;

 protected:
  Quantized quantize_wide(const torch::Tensor& latents, const QuantizerStep& step) override;
  torch::Tensor encode_wide(const torch::Tensor& latents) override;

 private:
  QuantizerConfig config_;
  torch::nn::Linear projection_{nullptr};
  torch::Tensor features_;  ///< [K, dim], 0 until they are read
};

}  // namespace nsvq
