#pragma once

#include <torch/types.h>

#include "nsvq/core/config.h"

namespace nsvq {

// Search and NS loss as the recipe asks for them (quantizer.operators): by the streaming operators
// of nsvq/ops, or by the plain ones they are tested against. Latents are [N, d].

/// Whether the streaming operators are used for latents of so many components in single precision:
/// the plain ones wait for a GPU.
bool search_streams(int64_t dimension, const QuantizerConfig& config);

/// Index [N] of the nearest code of each latent. Throws if a latent or a code is not finite.
torch::Tensor nearest_indices(const torch::Tensor& latents, const torch::Tensor& codebook,
                              const QuantizerConfig& config);

/// The same where nothing waits for a GPU: there a latent that is not finite, or all latents if a
/// code is not, get index -1. `require_found` is for when the indices are looked at.
torch::Tensor nearest_or_none(const torch::Tensor& latents, const torch::Tensor& codebook,
                              const QuantizerConfig& config);

/// Throws, as nearest_indices does, if one of the indices is -1. Waits for a GPU.
void require_found(const torch::Tensor& indices);

/// The same in training, where nothing waits for a GPU: there a latent that is not finite gets
/// index 0, and the loss shows it.
torch::Tensor nearest_without_waiting(const torch::Tensor& latents, const torch::Tensor& codebook,
                                      const QuantizerConfig& config);

/// The same check, on a CPU, for quantizers that search nothing. A GPU would have to be waited for.
void require_latents_finite(const torch::Tensor& latents);

/// The same for indices [B, h, w] of latents [B, d, h, w]: on a GPU they are -1 where the latent is
/// not finite.
torch::Tensor none_if_not_finite(const torch::Tensor& indices, const torch::Tensor& latents);

struct NeighbourSearch {
  torch::Tensor indices;  ///< [N] int64
  torch::Tensor ns;       ///< the NS loss, with a gradient for the codebook
};

/// Both at once. On a GPU nothing waits for the result: a latent that is not finite gets index 0
/// and makes the loss NaN.
NeighbourSearch search_with_neighbours(const torch::Tensor& latents, const torch::Tensor& codebook,
                                       const QuantizerConfig& config);

}  // namespace nsvq
