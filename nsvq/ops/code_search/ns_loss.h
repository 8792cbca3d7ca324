#pragma once

#include <torch/types.h>

namespace nsvq {

/// The non-stationary embedding loss of the paper, in plain tensor operations:
///
///   1 / (N d) * sum_i sum_{j != q_i} p_ij |sg(z_i) - c_j|^2,   p_i = sg softmax_j(-|z_i - c_j|^2 /
///   tau)
///
/// The softmax runs over all codes; the winner q_i is left out of the sum and its mass is not given
/// to the others. latents [N, d], codebook [K, d], indices [N]; the gradient reaches the codebook
/// alone.
torch::Tensor ns_loss(const torch::Tensor& latents, const torch::Tensor& codebook,
                      const torch::Tensor& indices, double tau);

}  // namespace nsvq
