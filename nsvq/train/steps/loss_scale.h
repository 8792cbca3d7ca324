#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include "nsvq/core/precision.h"
#include "nsvq/nn/named_tensors.h"

namespace nsvq {

/// Dynamic loss scaling for fp16: losses are multiplied before the backward pass and gradients
/// divided after it, by a factor that halves when a step overflows and doubles after 2,000 steps
/// that did not. It stays on the device, so there is no host synchronisation. Other precisions have
/// no factor.
class LossScale {
 public:
  explicit LossScale(Precision precision, c10::Device device = at::kCPU);

  /// Gradients of factor times `loss`.
  void backward(const torch::Tensor& loss) const;
  /// Removes the factor from the gradients of `module`.
  void unscale(const torch::nn::Module& module) const;
  /// The factor as a scalar tensor; undefined if there is none.
  const torch::Tensor& factor() const { return factor_; }
  /// Boolean on the device, true while the factor can still be halved; undefined without a factor.
  torch::Tensor can_shrink() const;
  /// After a step, which was skipped as non-finite if `skip`, a boolean on the device, is true.
  void update(const torch::Tensor& skip);

  /// For checkpoints.
  TensorMap state() const;
  void load(const TensorMap& state);

 private:
  torch::Tensor factor_;
  torch::Tensor steps_;  ///< since the factor changed
};

}  // namespace nsvq
