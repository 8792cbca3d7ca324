#pragma once

// Not torch/types.h: the CUDA kernel includes this too, and nvcc is slow on it.
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <tuple>

namespace nsvq {

/// A norm over the last dimension: RMS, or LayerNorm.
struct RowNorm {
  bool layer = false;
  double eps = 1e-5;
  at::Tensor weight = {}, bias = {};  ///< [C]; undefined without
};

/// A branch of the residual stream and what comes after it: each [B, T, C] or [B, 1, C], or
/// undefined.
struct NormedBranch {
  at::Tensor branch = {}, gate = {};  ///< x + gate branch; x + branch without a gate
  at::Tensor shift = {}, scale = {};  ///< norm (1 + scale) + shift
};

/// For sampling, without gradients: x + gate branch in fp32 (no numbers without a branch), and its
/// norm, shifted and scaled, in bf16, in one pass over x [B, T, C] fp32. Calls the operator
/// `nsvq::residual_norm_inference`.
std::tuple<at::Tensor, at::Tensor> residual_norm_inference(const at::Tensor& x,
                                                           const NormedBranch& parts,
                                                           const RowNorm& norm);

/// residual_norm_inference in plain tensor operations, where the sum without a branch is x; fp64 x
/// stays fp64 throughout.
std::tuple<at::Tensor, at::Tensor> residual_norm_reference(const at::Tensor& x,
                                                           const NormedBranch& parts,
                                                           const RowNorm& norm);

/// RMS norms without weights of the first two thirds of each row of qkv [..., 3 C] bf16, the
/// queries and the keys of all heads together, in place. Calls `nsvq::query_key_norm_inference_`.
void query_key_norm_inference(const at::Tensor& qkv, double eps);

/// The result of query_key_norm_inference in plain tensor operations; qkv is left alone.
at::Tensor query_key_norm_reference(const at::Tensor& qkv, double eps);

/// Whether these operators take rows of so many channels.
inline bool row_norms_take(int64_t channels) {
  return channels > 0 && channels % 8 == 0 && channels <= 8192;
}

/// For the kernels: throw unless shapes, types and memory are as above.
void check_residual_norm(const at::Tensor& x, const NormedBranch& parts, const RowNorm& norm);
void check_query_key_norm(const at::Tensor& qkv);

}  // namespace nsvq
