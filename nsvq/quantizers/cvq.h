#pragma once

#include "nsvq/quantizers/vq.h"

namespace nsvq {

struct CvqConfig {
  std::string distance = "cosine";
};

/// CVQ-VAE (Zheng and Vedaldi, 2023): plain vector quantization whose unused codes the policy
/// `anchor` moves to latents. One distance chooses a latent's code and a code's anchor.
class ClusteringQuantizer : public VectorQuantizer {
 public:
  using VectorQuantizer::VectorQuantizer;

  Distance distance() const override;

 protected:
  torch::Tensor search(const torch::Tensor& rows, NonFinite policy) override;
};

QuantizerKind cvq_kind();

}  // namespace nsvq
