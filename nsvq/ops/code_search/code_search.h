#pragma once

#include <torch/types.h>

#include <string>
#include <tuple>

namespace nsvq {

// Nearest-code search and NS loss without the N x K matrix of distances, on CPU and GPU. Each
// function calls the operator of its name in the dispatcher (torch.ops.nsvq.*), with its autograd
// function and its kernel for the device. Latents are [N, d], the codebook is [K, d], both in fp32,
// bf16 or fp16.
//
// A latent that is not finite has no nearest code. A CPU throws if a latent or a code is not
// finite. A GPU does not synchronise to find out: such a latent gets index -1 and distance and loss
// NaN, and all latents do if a code is not finite.

/// The nearest code of each latent: indices [N] int64 and squared distances [N] fp32. Exact: the
/// index is that of the least distance by fp64 differences of the given values, the lowest on ties,
/// for any number of threads. Distances have gradients for latents and codebook. A CPU also takes
/// fp64.
std::tuple<torch::Tensor, torch::Tensor> nearest_codes(const torch::Tensor& latents,
                                                       const torch::Tensor& codebook);

struct NsQuantized {
  torch::Tensor indices;    ///< [N] int64, those of nearest_codes
  torch::Tensor distances;  ///< [N] fp32, with gradients for latents and codebook
  torch::Tensor loss;       ///< scalar fp32, the NS loss with these winners
};

/// Search and NS loss (ns_loss_reference) in one sweep over all pairs. The gradient of the loss
/// reaches the codebook alone. It is computed in the forward pass if the codebook requires it: the
/// softmax weights are constants, so only the factor of the backward pass is unknown then.
NsQuantized ns_quantize(const torch::Tensor& latents, const torch::Tensor& codebook, double tau);

/// The NS loss for winners [N] that are known already; its gradient reaches the codebook alone.
torch::Tensor ns_loss(const torch::Tensor& latents, const torch::Tensor& codebook,
                      const torch::Tensor& indices, double tau);

/// Why searches of latents with d components on this device do not use the fastest kernels; empty
/// if they do. Results are equally exact without them.
std::string fast_search_unavailable_reason(int64_t dimension, c10::Device device);

}  // namespace nsvq
