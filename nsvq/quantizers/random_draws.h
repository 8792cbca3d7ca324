#pragma once

#include <torch/types.h>

namespace nsvq {

/// A generator of its own on a device: equal seeds give equal draws, whatever else draws numbers.
at::Generator generator_on(c10::Device device, uint64_t seed);

/// Standard Gumbel noise in the shape of a tensor: the largest of logits plus such noise is a draw
/// from their softmax.
torch::Tensor gumbel_noise_like(const torch::Tensor& logits, uint64_t seed);

}  // namespace nsvq
