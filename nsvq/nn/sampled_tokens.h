#pragma once

#include <torch/types.h>

#include "nsvq/nn/transformer.h"

namespace nsvq {

/// The tokens that pass through the blocks of a transformer in sampling. What a block adds is kept
/// until the next norm, so that one kernel does both; numbers stay fp32 between the blocks.
class SampledTokens {
 public:
  explicit SampledTokens(const torch::Tensor& x) : x_(x.contiguous()) {}

  /// Whether the kernels take such tokens: fp32 under autocast to bf16, without gradients.
  static bool takes(const torch::Tensor& x);

  /// The norm of all that was added so far, modulated: [B, T, width] bf16.
  torch::Tensor normed(const TokenNormImpl& norm, const Modulation& by);

  /// x + gate * branch, the gate may be undefined. A call of `normed` follows.
  void add(const torch::Tensor& branch, const torch::Tensor& gate);

 private:
  torch::Tensor x_;
  torch::Tensor branch_, gate_;  ///< what the next norm adds; undefined without
};

}  // namespace nsvq
