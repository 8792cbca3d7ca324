#pragma once

#include <torch/types.h>

namespace nsvq {

/// How many codes share each latent's weight in the NS loss: exp(entropy) [N] of
/// softmax_j(-|z_i - c_j|^2 / tau) over all codes, from 1 (one code has it all) to K (all equal).
/// latents [N, d], codebook [K, d]. No gradient; works through the latents in pieces, so that
/// memory stays bounded at any N. NaN where a latent is not finite.
torch::Tensor effective_neighbours(const torch::Tensor& latents, const torch::Tensor& codebook,
                                   double tau);

}  // namespace nsvq
