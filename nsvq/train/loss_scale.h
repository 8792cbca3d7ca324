#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <map>
#include <string>

#include "nsvq/core/precision.h"

namespace nsvq {

/// fp16 loses small gradients and overflows at large ones: losses are multiplied before the
/// backward pass and gradients divided after it, by a factor that halves when a step overflows and
/// doubles after 2,000 that did not. In other precisions it is 1 and stays so.
class LossScale {
 public:
  explicit LossScale(Precision precision);

  /// Gradients of factor times `loss`, without the factor in those of `module`.
  void backward(const torch::Tensor& loss, const torch::nn::Module& module) const;
  void step_taken();
  /// After a step with numbers that were not finite: whether a smaller factor may be the cure.
  bool shrink();
  double factor() const { return factor_; }

  /// For checkpoints.
  std::map<std::string, torch::Tensor> state() const;
  void load(const std::map<std::string, torch::Tensor>& state);

 private:
  bool scales_;
  double factor_;
  int64_t taken_ = 0;  ///< steps since the factor changed
};

}  // namespace nsvq
