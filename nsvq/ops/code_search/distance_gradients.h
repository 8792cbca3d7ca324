#pragma once

#include <torch/csrc/autograd/custom_function.h>
#include <torch/types.h>

namespace nsvq {

// Gradients of the squared distances of latents to their codes: 2 (z_i - c_q) for a latent and the
// opposite for its code, so that their mean is the embedding and the commitment loss.

/// z_i - c_q [N, d] in fp32. A GPU gives latents that are not finite index -1: their difference
/// with any code is not finite either, so the first one serves.
torch::Tensor code_differences(const torch::Tensor& latents, const torch::Tensor& codebook,
                               const torch::Tensor& indices);

/// Adds rows [N, d] to those of a codebook's gradient [K, d], in place: a second tensor of that
/// size would be the largest there is.
void add_to_code_rows(torch::Tensor grad, const torch::Tensor& indices, const torch::Tensor& rows);

struct DistanceGradients {
  torch::Tensor latents, codebook;  ///< undefined where not wanted
};

/// For an autograd function whose first inputs are latents and codebook and which has saved
/// {latents, codebook, indices, ...}: the gradients for both, given the distances' own [N].
/// `codebook_grad` is the codebook's gradient from other terms, fp32 and free to be written to, or
/// undefined.
DistanceGradients distance_gradients(torch::autograd::AutogradContext* context,
                                     const torch::Tensor& gradient, torch::Tensor codebook_grad);

}  // namespace nsvq
