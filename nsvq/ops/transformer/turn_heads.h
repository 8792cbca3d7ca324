#pragma once

// Not torch/types.h: the CUDA kernel includes this too, and nvcc is slow on it.
#include <ATen/core/Tensor.h>

#include <string>

namespace nsvq {

/// Queries, keys and values [B, heads, T, head width] for attention.
struct Heads {
  at::Tensor query, key, value;
};

/// Rotary positions: the heads of qkv [B, T, 3, heads, head width], contiguous, whose queries and
/// keys are turned, neighbouring channels as pairs, by `rotation` [T, head width / 2] complex64. On
/// a GPU qkv is bf16. The results share memory with qkv, which is written over: nothing else may
/// use it, neither now nor in the backward pass. Gradients reach qkv.
/// Calls the operators `nsvq::turn_heads_` and `nsvq::join_heads`.
Heads turn_heads(const at::Tensor& qkv, const at::Tensor& rotation);

/// turn_heads in plain tensor operations; qkv is left alone.
Heads turn_heads_reference(const at::Tensor& qkv, const at::Tensor& rotation);

/// Why the kernels do not take these; empty if they do.
std::string turn_heads_unavailable_reason(const at::Tensor& qkv, const at::Tensor& rotation);

/// For the kernels: throws unless shapes, types and memory are as above.
void check_turn_heads(const at::Tensor& qkv, const at::Tensor& rotation);

/// For the kernels of join_heads: throws unless all are [B, heads, T, head width] of one type.
void check_join_heads(const Heads& heads, const at::Tensor& rotation);

}  // namespace nsvq
