#pragma once

#include <torch/types.h>

#include <tuple>

namespace nsvq {

/// Rows [N, d] scaled to length 1, in fp32 (fp64 stays); a row of zeros stays one.
torch::Tensor unit_rows(const torch::Tensor& rows);

/// The code of the least angle with each latent: indices [N] and the squared distances [N] of the
/// scaled vectors, 2 - 2 cos. It is the exact search (streaming.h) among rows scaled in fp32, which
/// are what a factorised quantizer compares and decodes; ties and values that are not finite are as
/// there. Distances have gradients. `torch.ops.nsvq.nearest_codes_cosine`.
std::tuple<torch::Tensor, torch::Tensor> nearest_codes_cosine(const torch::Tensor& latents,
                                                              const torch::Tensor& codebook);

}  // namespace nsvq
