#pragma once

// Not torch/types.h: the CUDA kernel includes this too, and nvcc is slow on it.
#include <ATen/core/Tensor.h>

namespace nsvq {

/// A share as kept_bits has it, a multiple of 2^-16.
double dropped_share(double share);

/// What dropout keeps of values [..., 8n]: bytes [..., n] whose bits, the lowest first, are set for
/// values that it keeps. It drops dropped_share(share) of them, by torch's generator.
/// Calls the operator `nsvq::kept_bits`.
at::Tensor kept_bits(const at::Tensor& values, double share);

/// 1 for bits that are set, else 0: [..., 8n] of `type`.
at::Tensor bits_as_numbers(const at::Tensor& bits, at::ScalarType type);

/// For the kernels: throws unless the last dimension is a multiple of 8.
void check_kept_bits(const at::Tensor& values, double share);

}  // namespace nsvq
