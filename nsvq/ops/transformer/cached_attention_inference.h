#pragma once

// Not torch/types.h: the CUDA kernel includes this too, and nvcc is slow on it.
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace nsvq {

/// How queries and keys are normalised over each head.
enum class HeadNorm : int64_t { none, rms, layer };

struct HeadNorms {
  HeadNorm kind = HeadNorm::none;
  double eps = 1e-5;
  /// [head width] fp32 each; undefined without.
  at::Tensor query_weight = {}, query_bias = {}, key_weight = {}, key_bias = {};
};

/// Attention of one new token a sequence, for sampling, without gradients. `qkv` [B, 3 heads D] is
/// the token's query, key and value, bf16; `keys` and `values` [B, heads, positions, D] bf16 hold
/// the tokens before it. Queries and keys are normalised, then turned by `rotation` [1, D / 2]
/// complex, as neighbouring channels; undefined: not. Key and value are written at `place`, one
/// int64 on the device, and the query attends over the places up to it: [B, heads D] bf16. Sums are
/// fp32. Calls the operator `nsvq::cached_attention_inference`.
at::Tensor cached_attention_inference(const at::Tensor& qkv, const at::Tensor& keys,
                                      const at::Tensor& values, const at::Tensor& place,
                                      const at::Tensor& rotation, const HeadNorms& norms);

/// Whether the operator takes heads of this width.
inline bool cached_attention_takes(int64_t head_width) {
  return head_width > 0 && head_width <= 128 && head_width % 8 == 0;
}

/// cached_attention_inference in plain tensor operations, in fp32, or fp64 for such tensors.
at::Tensor cached_attention_reference(const at::Tensor& qkv, const at::Tensor& keys,
                                      const at::Tensor& values, const at::Tensor& place,
                                      const at::Tensor& rotation, const HeadNorms& norms);

/// For the kernels: throws unless shapes, types and memory are as above.
void check_cached_attention(const at::Tensor& qkv, const at::Tensor& keys, const at::Tensor& values,
                            const at::Tensor& place, const at::Tensor& rotation,
                            const HeadNorms& norms);

}  // namespace nsvq
