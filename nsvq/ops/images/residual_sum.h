#pragma once

// Not torch/types.h: the CUDA kernel includes this too, and nvcc is slow on it.
#include <ATen/core/Tensor.h>

namespace nsvq {

/// What becomes of the sum: nothing, a row and a column of zeros after the last, or four pixels of
/// each.
enum class SumForm : int64_t { plain, padded_after, doubled };

/// x + offset, rounded, + h: activations [N, C, H, W], channels-last in fp32, bf16 or fp16, with
/// `offset` [C], in fp32 or of their type, and `h`, as x is; both may be undefined. On a GPU one
/// pass. It has no gradient, so autograd must be off. Calls the operator `nsvq::residual_sum`.
at::Tensor residual_sum(const at::Tensor& x, const at::Tensor& h, const at::Tensor& offset,
                        SumForm form);

/// residual_sum in plain tensor operations.
at::Tensor residual_sum_reference(const at::Tensor& x, const at::Tensor& h,
                                  const at::Tensor& offset, SumForm form);

/// For the kernel: throws unless shapes, types and devices are as above.
void check_residual(const at::Tensor& x, const at::Tensor& h, const at::Tensor& offset);

}  // namespace nsvq
