#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <map>
#include <string>

#include "nsvq/core/precision.h"

namespace nsvq {

/// fp16 loses small gradients and overflows at large ones: losses are multiplied before the
/// backward pass and gradients divided after it, by a factor that halves when a step overflows and
/// doubles after 2,000 that did not. It is kept on the device, so that nothing waits for it. In
/// other precisions there is none.
class LossScale {
 public:
  explicit LossScale(Precision precision, c10::Device device = at::kCPU);

  /// Gradients of factor times `loss`, without the factor in those of `module`.
  void backward(const torch::Tensor& loss, const torch::nn::Module& module) const;
  /// The factor as a scalar tensor; undefined if there is none.
  const torch::Tensor& factor() const { return factor_; }
  /// Whether a smaller factor may cure numbers that are not finite, as a boolean on the device;
  /// undefined if there is none.
  torch::Tensor can_shrink() const;
  /// After a step, which was `bad` (a boolean on the device) or not.
  void update(const torch::Tensor& bad);

  /// For checkpoints.
  std::map<std::string, torch::Tensor> state() const;
  void load(const std::map<std::string, torch::Tensor>& state);

 private:
  torch::Tensor factor_;
  torch::Tensor taken_;  ///< steps since the factor changed
};

}  // namespace nsvq
