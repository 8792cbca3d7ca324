#pragma once

#include <torch/types.h>

#include <tuple>

namespace nsvq {

// Search and NS loss without the N x K matrix, on a CPU. Operators of the dispatcher
// (torch.ops.nsvq.*).

/// The nearest code of each latent: indices [N] int64 and squared distances [N] fp32, of latents
/// [N, d] and codebook [K, d] in fp32, bf16, fp16 or fp64. Exact: the index is that of the least
/// distance by fp64 differences of the given values, the lowest on ties, for any number of threads.
/// Throws if a latent or a code is not finite: NaN has no nearest code.
std::tuple<torch::Tensor, torch::Tensor> exact_nearest_codes(const torch::Tensor& latents,
                                                             const torch::Tensor& codebook);

/// The same by fp64 differences of every pair: what "exact" means, and slow.
std::tuple<torch::Tensor, torch::Tensor> exact_nearest_codes_reference(
    const torch::Tensor& latents, const torch::Tensor& codebook);

/// ns_loss (nsvq/ops/ns_loss.h) of fp32 tensors, its gradient included.
torch::Tensor streaming_ns_loss(const torch::Tensor& latents, const torch::Tensor& codebook,
                                const torch::Tensor& indices, double tau);

}  // namespace nsvq
