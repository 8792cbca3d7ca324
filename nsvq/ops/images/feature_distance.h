#pragma once

#include <torch/types.h>

namespace nsvq {

/// LPIPS of one pair of activations [B, C, H, W]: the channels of each position are scaled to unit
/// length (x / (|x| + 1e-10)), their squared differences weighted by `weights` [C], summed over
/// channels and averaged over positions: [B] fp32 (fp64 for fp64). Gradients are for `ours` alone,
/// 0 where a position is 0. On a GPU with channels-last activations in fp32, bf16 or fp16 it is one
/// pass forward and one backward that keep nothing but their inputs; elsewhere the plain version.
torch::Tensor feature_distance(const torch::Tensor& ours, const torch::Tensor& theirs,
                               const torch::Tensor& weights);

/// feature_distance in plain tensor operations; differentiable with respect to both activations.
torch::Tensor feature_distance_reference(const torch::Tensor& ours, const torch::Tensor& theirs,
                                         const torch::Tensor& weights);

}  // namespace nsvq
