#pragma once

#include <torch/types.h>

#include <cstdint>

namespace nsvq {

/// Rows [count, d] drawn from rows [N, d] without replacement. Where N is less than `count`, the
/// rows are repeated, each with noise N(0, (0.01 / sqrt d)^2), as in Jukebox, so that copies
/// differ. The seed is one of nsvq/ops/seeded_values.h, on the rows' device.
torch::Tensor draw_rows(const torch::Tensor& rows, int64_t count, const torch::Tensor& seed);

/// Standard Gumbel noise in the shape of a tensor: the largest of logits plus such noise is a draw
/// from their softmax.
torch::Tensor gumbel_noise_like(const torch::Tensor& logits, uint64_t seed);

}  // namespace nsvq
