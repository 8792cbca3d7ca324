#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <cstdint>

namespace nsvq {

/// Keeps a discriminator from winning: it holds still while the running mean m of its hinge loss is
/// below a target,
///   m <- 0.99 m + 0.01 loss in each step, from 1, the loss of a discriminator at chance;
///   held = m < target.
/// While it is held the generator goes on, so the loss rises again.
class HingeFloor : public torch::nn::Module {
 public:
  /// `updates_per_step`: calls of `update` that share a step's decay (train.accumulate).
  HingeFloor(double target, int64_t updates_per_step);

  /// Moves the mean by the detached loss, a scalar that is equal on all ranks; a loss that is not
  /// finite leaves it. Returns whether the discriminator is held, a boolean on the mean's device.
  torch::Tensor update(const torch::Tensor& loss);

 private:
  double target_, decay_;
  torch::Tensor mean_;  // a buffer, fp64
};

}  // namespace nsvq
