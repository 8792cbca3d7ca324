#pragma once

#include <torch/types.h>

#include <tuple>

namespace nsvq {

// Search and NS loss without the N x K matrix. Operators of the dispatcher (torch.ops.nsvq.*);
// kernels register themselves for a device.

/// The nearest code of each latent: indices [N] int64 and squared distances [N] fp32, of latents
/// [N, d] and codebook [K, d] in fp32, bf16, fp16 or fp64. Exact: the index is that of the least
/// distance by fp64 differences of the given values, the lowest on ties, for any number of threads.
/// NaN has no nearest code: a CPU throws if a latent or a code is not finite; a GPU, which does not
/// wait to find out, gives such a latent index -1 and distance NaN, all of them if a code is not
/// finite. fp64 is for a CPU alone.
std::tuple<torch::Tensor, torch::Tensor> exact_nearest_codes(const torch::Tensor& latents,
                                                             const torch::Tensor& codebook);

/// The same by fp64 differences of every pair: what "exact" means, and slow.
std::tuple<torch::Tensor, torch::Tensor> exact_nearest_codes_reference(
    const torch::Tensor& latents, const torch::Tensor& codebook);

struct NsSearch {
  torch::Tensor indices;    ///< [N] int64, as of exact_nearest_codes
  torch::Tensor distances;  ///< [N] fp32
  torch::Tensor loss;  ///< the NS loss (nsvq/ops/code_search/ns_loss.h) with these winners, fp32
};

/// Search and NS loss in one sweep, of tensors in fp32, bf16 or fp16. The gradient of the loss
/// reaches the codebook alone and is computed at once, if the codebook requires it: the weights are
/// constants, so it is known but for a factor.
NsSearch ns_search(const torch::Tensor& latents, const torch::Tensor& codebook, double tau);

/// indices, distances, losses and denominators of nsvq::ns_search and the result of nsvq::ns_pull
/// by these two operators in turn: what nsvq::ns_search_pull is where no kernel does better.
std::tuple<torch::Tensor, torch::Tensor, torch::Tensor, torch::Tensor, torch::Tensor>
ns_search_then_pull(const torch::Tensor& latents, const torch::Tensor& codebook, double tau);

}  // namespace nsvq
