#pragma once

#include <ATen/core/Generator.h>
#include <torch/types.h>

#include <cstdint>

namespace nsvq {

/// A generator on a device, so that what a step draws there depends on its seed alone and nothing
/// waits for a copy.
at::Generator generator_on(c10::Device device, uint64_t seed);

/// Rows [count, d] drawn from rows [N, d] without replacement. Where N is less than `count`, the
/// rows are repeated, each with noise N(0, (0.01 / sqrt d)^2), as in Jukebox, so that copies
/// differ.
torch::Tensor draw_rows(const torch::Tensor& rows, int64_t count, const at::Generator& generator);

/// Standard Gumbel noise in the shape of a tensor: the largest of logits plus such noise is a draw
/// from their softmax.
torch::Tensor gumbel_noise_like(const torch::Tensor& logits, uint64_t seed);

}  // namespace nsvq
