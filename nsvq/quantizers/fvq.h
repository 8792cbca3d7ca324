#pragma once

#include "nsvq/quantizers/code_bridge.h"
#include "nsvq/quantizers/quantizer.h"

namespace nsvq {

/// FVQ (Chang et al., 2025): plain vector quantization with codes that a network makes of a trained
/// codebook, so that a gradient of one code moves all of them.
class BridgedQuantizer : public Quantizer {
 public:
  BridgedQuantizer(const QuantizerConfig& config, int64_t latent_dim);

  torch::Tensor decode(const torch::Tensor& indices) override;
  int64_t codes() const override { return embedding_.size(0); }
  torch::Tensor code_vectors() override;

 protected:
  Quantized quantize_wide(const torch::Tensor& latents, const QuantizerStep& step) override;
  torch::Tensor encode_wide(const torch::Tensor& latents) override;

 private:
  QuantizerConfig config_;
  std::shared_ptr<CodeBridgeImpl> bridge_;
  torch::Tensor embedding_;  ///< [K, d], what the bridge is given
};

}  // namespace nsvq
