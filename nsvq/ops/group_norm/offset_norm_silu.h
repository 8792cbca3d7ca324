#pragma once

#include "nsvq/ops/group_norm/add_norm_silu.h"

namespace nsvq {

/// What goes into a norm besides its input a [N, C, H, W], each undefined if there is none: `b` as
/// `a` is, `shift` [N, C] of its type, `offset` [C] in fp32 or of its type, and `skip` [N, D, H, W]
/// of its type, whose channels follow those of `a`.
struct NormOffsets {
  at::Tensor b, shift, offset, skip = {};
};

/// add_norm_silu for inference: sum = cat(a + b + shift + offset, skip), rounded once, and output =
/// group_norm_silu(sum, ...), so that biases of convolutions, a U-Net's time embedding and its skip
/// connections take no pass of their own. The sum is undefined unless `keep_sum`. It has no
/// gradient, so autograd must be off. Calls the operator `nsvq::offset_norm_silu`.
SumAndNorm offset_norm_silu(const at::Tensor& a, const NormOffsets& offsets,
                            const at::Tensor& weight, const at::Tensor& bias, int64_t groups,
                            double eps, bool silu, bool keep_sum);

/// offset_norm_silu of a + b + offset, which is written over `b`: [N, C, H, W], channels-last. For
/// activations so large that memory for the sum counts. Calls the operator
/// `nsvq::offset_norm_silu_`.
at::Tensor offset_norm_silu_(const at::Tensor& a, const at::Tensor& b, const at::Tensor& offset,
                             const at::Tensor& weight, const at::Tensor& bias, int64_t groups,
                             double eps, bool silu);

/// The sum in plain tensor operations: in fp32, then in the type of `a`.
at::Tensor sum_reference(const at::Tensor& a, const NormOffsets& offsets);

/// For the kernels: throws unless shapes, types and devices are as above.
void check_offsets(const at::Tensor& a, const NormOffsets& offsets);
void check_in_place(const at::Tensor& a, const NormOffsets& offsets);

}  // namespace nsvq
