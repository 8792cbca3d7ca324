#pragma once

// Not torch/types.h: the CUDA kernel includes this too, and nvcc is slow on it.
#include <ATen/core/Tensor.h>

namespace nsvq {

/// GroupNorm, then SiLU unless `silu` is false, of input [N, C, H, W] in bf16, fp16 or fp32, with
/// statistics in fp32. weight and bias [C] are fp32 or of the input's type. The output has the
/// input's type and channels-last memory, the layout it is made for: other input is copied first.
/// The backward pass starts from the input, so the output need not be kept. A NaN stays in its
/// image and group, and results are bit for bit equal in every run and for any number of threads.
/// Calls the operator `nsvq::group_norm_silu`, which returns the groups' mean and rstd as well.
at::Tensor group_norm_silu(const at::Tensor& input, const at::Tensor& weight,
                           const at::Tensor& bias, int64_t groups, double eps, bool silu);

/// group_norm_silu in plain tensor operations and the precision of its inputs.
at::Tensor group_norm_silu_reference(const at::Tensor& input, const at::Tensor& weight,
                                     const at::Tensor& bias, int64_t groups, double eps, bool silu);

/// For the kernels: throws unless shapes and types are as above.
void check_group_norm_silu(const at::Tensor& input, const at::Tensor& weight,
                           const at::Tensor& bias, int64_t groups);

}  // namespace nsvq
