#pragma once

// Not torch/types.h: the CUDA kernel includes this too, and nvcc is slow on it.
#include <ATen/core/Tensor.h>

namespace nsvq {

struct SumAndNorm {
  at::Tensor sum, output;
};

/// The end of a residual block and the norm after it: sum = a + b in their type, and
/// output = group_norm_silu(sum, ...), for a and b [N, C, H, W] as that operator takes them. `b`
/// may be undefined: the sum is then `a`. On a GPU the sum is formed in the pass for the norm's
/// statistics, and its gradient is added in the pass that makes the norm's; a and b have one
/// gradient. With `b` it calls the operator `nsvq::add_norm_silu`.
SumAndNorm add_norm_silu(const at::Tensor& a, const at::Tensor& b, const at::Tensor& weight,
                         const at::Tensor& bias, int64_t groups, double eps, bool silu);

/// add_norm_silu in plain tensor operations and the precision of its inputs.
SumAndNorm add_norm_silu_reference(const at::Tensor& a, const at::Tensor& b,
                                   const at::Tensor& weight, const at::Tensor& bias, int64_t groups,
                                   double eps, bool silu);

/// For the kernels: throws unless both are of one type, shape and device.
void check_addends(const at::Tensor& a, const at::Tensor& b);

}  // namespace nsvq
