#pragma once

#include <torch/nn/modules/linear.h>

#include <string>

#include "nsvq/quantizers/mapped.h"

namespace nsvq {

/// The frozen features.
struct FeaturesConfig {
  std::string file;
  int64_t dim = 768;
};

/// VQGAN-LC (Zhu et al., 2024): codes are a trained linear projection of frozen features [K, dim]
/// of images. A run reads the features from quantizer.features.file when it begins; from then on
/// they are in its checkpoints. Loss: |z - sg c|^2 + 0.33 |sg z - c|^2.
class FeatureQuantizer : public MappedQuantizer {
 public:
  FeatureQuantizer(const QuantizerConfig& config, int64_t latent_dim);

  int64_t codes() const override { return features_.size(0); }
  void begin() override;

 protected:
  torch::Tensor mapped_codes() override;
  Quantized quantize_wide(const torch::Tensor& latents, const QuantizerStep& step) override;

 private:
  FeaturesConfig settings_;
  torch::nn::Linear projection_{nullptr};
  torch::Tensor features_;  ///< [K, dim], 0 until they are read
};

QuantizerKind vqgan_lc_kind();

}  // namespace nsvq
