#pragma once

#include <torch/types.h>

namespace nsvq {

/// The sum of the latents [N, d] of each code: [codes, d] fp32, zero for a code that no index names.
/// Indices are [N] int64. Repeatable: rows are added in an order that depends on the indices alone.
torch::Tensor code_sums(const torch::Tensor& latents, const torch::Tensor& indices, int64_t codes);

/// The same by PyTorch's index_add.
torch::Tensor code_sums_reference(const torch::Tensor& latents, const torch::Tensor& indices,
                                  int64_t codes);

}  // namespace nsvq
