#pragma once

#include <torch/types.h>

#include <functional>

namespace nsvq {

struct LfqEntropy {
  torch::Tensor sample;  ///< mean over the latents of H(p_i)
  torch::Tensor batch;   ///< H of the mean of p_i over the latents, with log(p + 1e-5)
};

/// The entropies of lookup-free quantization, for latents [N, bits] and all 2^bits codes c of
/// signs:
///
///   p_i = softmax_c(2 z_i . c / temperature)
///
/// Exact and without the [N, 2^bits] matrix. The bits of a code are independent under p_i, bit k
/// being set with probability sigmoid(4 z_ik / temperature); so H(p_i) is a sum over bits, and the
/// mean of p_i is one matrix product of what the lower and the upper half of the bits give. Scalars
/// with gradients for the latents; at most 24 bits.
///
/// `over_ranks`, where given, averages the mean of p_i over all ranks, in place; the gradient is
/// then that of the sum of all ranks' entropies for these latents.
LfqEntropy lfq_entropy(const torch::Tensor& latents, double temperature,
                       const std::function<void(const torch::Tensor& mean)>& over_ranks = nullptr);

/// lfq_entropy by the [N, 2^bits] matrix.
LfqEntropy lfq_entropy_reference(const torch::Tensor& latents, double temperature);

}  // namespace nsvq
