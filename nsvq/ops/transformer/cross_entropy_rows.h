#pragma once

// Not torch/types.h: the CUDA kernel includes this too, and nvcc is slow on it.
#include <ATen/core/Tensor.h>

namespace nsvq {

/// What becomes of the logits of cross_entropy_rows.
enum class LogitsAfter { kept, gradient };

/// Cross-entropy [n] of the classes `targets` [n] int64 by logits [n, K], in fp32 at least; without
/// gradients. The logits may become the gradient of the losses by them, in place, each row's times
/// its factor [n] (fp32; undefined: 1). On a GPU logits are bf16 and contiguous, and a block reads
/// its row from memory once. Calls the operator `nsvq::cross_entropy_rows_`.
at::Tensor cross_entropy_rows(const at::Tensor& logits, const at::Tensor& targets,
                              const at::Tensor& factors, LogitsAfter after);

/// For the kernels: throws unless shapes, types and devices are as above.
void check_cross_entropy_rows(const at::Tensor& logits, const at::Tensor& targets,
                              const at::Tensor& factors);

}  // namespace nsvq
