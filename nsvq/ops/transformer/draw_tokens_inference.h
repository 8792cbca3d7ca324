#pragma once

// Not torch/types.h: the CUDA kernel includes this too, and nvcc is slow on it.
#include <ATen/core/Tensor.h>

namespace nsvq {

/// How codes are drawn from logits.
struct CodeDraw {
  at::Tensor seeds;        ///< [N] int64
  at::Tensor weight = {};  ///< of guidance, one fp32; undefined without
  at::Tensor factor = {};  ///< one fp32 by which logits are multiplied; undefined without
  double temperature = 1;  ///< by which they are divided
  at::Tensor wanted = {};  ///< [N] bool: rows to draw; undefined: all
};

/// Draws from the softmax of logits [N, K] fp32, bf16 or fp16 by Gumbel noise of each row's seed:
/// [N] int64, 0 in rows that are not wanted. With guidance logits are [2N, K], the upper half c
/// with the class, the lower u without it, and the draw is from u + weight (c - u). Bit for bit
/// what plain operations give on the same device. Calls the operator `nsvq::draw_tokens_inference`.
at::Tensor draw_tokens_inference(const at::Tensor& logits, const CodeDraw& how);

/// draw_tokens_inference in plain tensor operations.
at::Tensor draw_tokens_reference(const at::Tensor& logits, const CodeDraw& how);

/// For the kernels: throws unless shapes, types and memory are as above.
void check_draw_tokens(const at::Tensor& logits, const CodeDraw& how);

}  // namespace nsvq
