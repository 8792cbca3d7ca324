#pragma once

#include <torch/types.h>

#include <string>

#include "nsvq/quantizers/quantizer_config.h"

namespace nsvq {

// Search and NS loss by the operators that the recipe asks for (quantizer.operators): the streaming
// ones of nsvq/ops/code_search/code_search.h, or the plain ones they are tested against.

/// Why CUDA graphs cannot hold a search of fp32 latents with d components; empty if they can. The
/// plain operators synchronise the host with a GPU.
std::string reason_against_graphs(int64_t dimension, const QuantizerConfig& config);

/// Whether the streaming operators are used for them.
bool uses_streaming_search(int64_t dimension, const QuantizerConfig& config);

/// What happens on a GPU to a latent that is not finite, and so has no nearest code. A CPU throws
/// whatever the policy, since it can check without waiting, and so does a search by plain
/// operators.
enum class NonFinite {
  error,  ///< throw; synchronises the host with the GPU
  mark,   ///< index -1, which `throw_if_marked` finds once the indices are on the host
  ignore  ///< any valid index (a search gives 0). For training: the latent makes the loss NaN, by
          ///< which the step is skipped
};

/// Index [N] of the nearest code in codebook [K, d] of each latent [N, d], without gradients. If a
/// code is not finite, no latent has a nearest code.
torch::Tensor nearest_indices(const torch::Tensor& latents, const torch::Tensor& codebook,
                              const QuantizerConfig& config, NonFinite policy);

/// Applies the policy to indices [B, h, w] or [N] that were not searched for among codes, such as
/// FSQ's, of latents [B, d, h, w] or [N, d].
torch::Tensor with_policy(const torch::Tensor& indices, const torch::Tensor& latents,
                          NonFinite policy);

/// Throws if one of the indices is the mark of a latent that is not finite, -1.
void throw_if_marked(const torch::Tensor& indices);

struct NeighbourSearch {
  torch::Tensor indices;  ///< [N] int64
  torch::Tensor ns;       ///< the NS loss, with a gradient for the codebook
};

/// Search and NS loss of temperature tau at once, with NonFinite::ignore: a latent that is not
/// finite makes the loss NaN on a GPU.
NeighbourSearch search_with_neighbours(const torch::Tensor& latents, const torch::Tensor& codebook,
                                       double tau, const QuantizerConfig& config);

}  // namespace nsvq
