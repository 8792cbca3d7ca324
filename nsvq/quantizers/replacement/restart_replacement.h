#pragma once

#include "nsvq/core/tensor_map.h"
#include "nsvq/quantizers/replacement/replacement.h"

namespace nsvq {

/// As in Jukebox: after each step, a code whose running usage per step (replacement.decay) is below
/// replacement.threshold is overwritten by a latent of rank 0's batch, drawn at random. Its usage
/// starts anew at the threshold.
class RestartReplacement : public Replacement {
 public:
  RestartReplacement(const ReplacementConfig& config, const torch::Tensor& codebook);

  bool acts_after_steps() const override { return true; }
  torch::Tensor after_step(torch::Tensor codebook, const StepOutputs& step) override;
  TensorMap state() override { return {{"usage", usage_}}; }

 private:
  double threshold_, decay_;
  torch::Tensor usage_;  ///< [K]
};

ReplacementKind restart_replacement_kind();

}  // namespace nsvq
