#pragma once

#include <torch/types.h>

#include <cstdint>

namespace nsvq {

// Random numbers by a seed that is a tensor, one int64 on the device that draws: so a replayed CUDA
// graph draws new numbers each time, and the host need not synchronise. A number depends only on
// the seed, the draw and its index, not on the number of threads or the device (but for the
// rounding of those that are not uniform).

/// Throws unless the seed is one, on this device.
void check_seed(const char* op, const torch::Tensor& seed, c10::Device device);

/// Numbers [count] in fp32, uniform in [0, 1). Different `draw`s of a seed give different numbers.
torch::Tensor uniform_values(const torch::Tensor& seed, int64_t draw, int64_t count);

/// Numbers [count] in fp32 of a standard normal distribution.
torch::Tensor normal_values(const torch::Tensor& seed, int64_t draw, int64_t count);

/// Numbers [rows, count] of seeds [rows]: row i is what uniform_values or normal_values gives for
/// seed i.
torch::Tensor uniform_rows(const torch::Tensor& seeds, int64_t draw, int64_t count);
torch::Tensor normal_rows(const torch::Tensor& seeds, int64_t draw, int64_t count);

/// Numbers [count] in fp32 of a standard Gumbel distribution, those of the indices from `first` on:
/// the largest of logits plus such noise is a draw from their softmax.
torch::Tensor gumbel_values(const torch::Tensor& seed, int64_t first, int64_t count);

}  // namespace nsvq
