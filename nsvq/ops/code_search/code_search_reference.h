#pragma once

#include <torch/types.h>

namespace nsvq {

/// Squared Euclidean distances [N, K] between latents [N, d] and codebook [K, d], differentiable.
torch::Tensor squared_distances(const torch::Tensor& latents, const torch::Tensor& codebook);

/// Index [N] of the nearest code of each latent, the lowest one on ties, in plain tensor operations
/// and in the precision of its inputs. Works through the latents in pieces, so that memory stays
/// bounded at any N. Throws if a latent or a code is not finite: NaN has no nearest code.
torch::Tensor nearest_codes(const torch::Tensor& latents, const torch::Tensor& codebook);

}  // namespace nsvq
