#pragma once

#include <torch/types.h>

#include <string>
#include <tuple>

namespace nsvq {

// Nearest-code search and NS loss without the N x K matrix of distances, on CPU and GPU. Each
// function calls the operator of its name in the dispatcher (torch.ops.nsvq.*), with its autograd
// function and its kernel for the device.
//
// What every kernel keeps to (tests/ops/cases_test.cpp and exactness_test.cpp try it on each device
// and by each path):
// - Operators: nearest_codes, ns_search and ns_codebook_grad; ns_search_with_grad too where a
//   kernel does both at once (ns_search.h has the results). The others are made of these.
// - Input: latents [N, d] and codebook [K, d] on one device, in fp32, bf16 or fp16, contiguous or
//   not; N may be 0, K not. A CPU also takes fp64. A GPU: d at most 65,536, N and K below 2^31.
// - Indices are exact: the code of the least distance by fp64 differences of the given values, the
//   lowest index on ties, for any number of threads. nearest_codes_fp64 (code_search_reference.h)
//   is that definition. nearest_codes_reference is the plain version (quantizer.operators: plain),
//   in the precision of its inputs, whose indices are not exact in fp32.
// - Distances are the squares of these differences, summed in fp64 and rounded to fp32. Where one
//   overflows fp32 on a GPU, its index is exact, and distance and loss are infinite or NaN.
// - Losses and gradients have at most twice the error of ns_loss_reference in the same precision.
// - A latent that is not finite has no nearest code. A CPU throws if a latent or a code is not
//   finite. A GPU gives such a latent index -1 and NaN as distance, loss and denominator, and all
//   latents if a code is not finite; these latents add nothing to the gradient.
// - A GPU kernel never makes the host wait, so that CUDA graphs can hold it.

/// The nearest code of each latent: indices [N] int64 and squared distances [N] fp32, which have
/// gradients for latents and codebook.
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

/// Why searches of latents with d components on this device use blocked matrix products, not
/// kernels for its tensor cores; empty if they use these. Results are equally exact.
std::string fast_search_unavailable_reason(int64_t dimension, c10::Device device);

}  // namespace nsvq
