#pragma once

#include "nsvq/quantizers/code_bridge.h"
#include "nsvq/quantizers/mapped.h"

namespace nsvq {

/// FVQ (Chang et al., 2025): plain vector quantization with codes that a network makes of a trained
/// codebook, so that a gradient of one code moves all of them.
class BridgedQuantizer : public MappedQuantizer {
 public:
  BridgedQuantizer(const QuantizerConfig& config, int64_t latent_dim);

  int64_t codes() const override { return embedding_.size(0); }

 protected:
  torch::Tensor mapped_codes() override { return bridge_->forward(embedding_); }

 private:
  std::shared_ptr<CodeBridgeImpl> bridge_;
  torch::Tensor embedding_;  ///< [K, d], what the bridge is given
};

QuantizerKind fvq_kind();

}  // namespace nsvq
