#pragma once

#include "nsvq/core/tensor_map.h"
#include "nsvq/quantizers/replacement/replacement.h"

namespace nsvq {

struct AnchorReplacementConfig {
  std::string anchor = "sampled";
  Distance distance = Distance::l2;  ///< no setting: make_replacement takes the quantizer's
};

/// As in CVQ-VAE (clustering VQ): after each step, every code moves towards an anchor, a latent of
/// rank 0's batch, the further the less it is used: c <- (1 - a) c + a anchor, where
/// a = exp(-10 K p / (1 - decay) - 1e-3) and p is the running share of latents that chose the code.
/// Anchors (replacement.anchor) are drawn by the softmax over the batch of cosine similarity, or of
/// squared distances with a minus ("sampled"), the closest latent ("closest"), or any latent
/// ("random").
class AnchorReplacement : public Replacement {
 public:
  AnchorReplacement(const ReplacementConfig& config, const torch::Tensor& codebook);

  /// The rows it returns are those that moved by more than a hundredth of the way.
  bool acts_after_steps() const override { return true; }
  torch::Tensor after_step(torch::Tensor codebook, const StepOutputs& step) override;
  TensorMap state() override { return {{"share", share_}}; }

 private:
  double decay_;
  AnchorReplacementConfig settings_;
  torch::Tensor share_;  ///< [K]
};

ReplacementKind anchor_replacement_kind();

/// Positions [K] in latents [N, d] of the most similar one to each code, the first on ties, without
/// a K x N matrix.
torch::Tensor most_similar(const torch::Tensor& codebook, const torch::Tensor& latents);

}  // namespace nsvq
