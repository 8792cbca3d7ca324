#pragma once

#include <torch/types.h>

#include <tuple>

namespace nsvq {

/// Vectors along dimension 1 scaled to length 1, in fp32 (fp64 stays); those of length 0 stay.
torch::Tensor unit_vectors(const torch::Tensor& vectors);

/// The code of the least angle with each latent: indices [N] and the squared distances [N] of the
/// scaled vectors, 2 - 2 cos. It is the exact search (code_search.h) among rows scaled in fp32,
/// which are what a factorised quantizer compares and decodes, with its rules for ties and for
/// values that are not finite. Distances have gradients. `torch.ops.nsvq.nearest_codes_cosine`.
std::tuple<torch::Tensor, torch::Tensor> nearest_codes_cosine(const torch::Tensor& latents,
                                                              const torch::Tensor& codebook);

}  // namespace nsvq
