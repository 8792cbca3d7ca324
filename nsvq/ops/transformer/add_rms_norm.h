#pragma once

// Not torch/types.h: the CUDA kernel includes this too, and nvcc is slow on it.
#include <ATen/core/Tensor.h>

#include <string>

namespace nsvq {

/// What a block of a transformer adds to its tokens.
struct Branch {
  at::Tensor values = {};  ///< as the tokens, in bf16; undefined: nothing
  at::Tensor kept = {};    ///< kept_bits of the values that dropout keeps; undefined: all
  double dropped = 0;      ///< the share that it drops
};

struct SumAndRmsNorm {
  at::Tensor sum, output;
};

/// sum = x + the branch's kept values / (1 - dropped), and output = RMSNorm(sum) * weight in bf16:
/// x [..., width] fp32, whose rows lie one after the other, weight [width] fp32. Without values the
/// sum is x. One pass forward and one backward; gradients reach x, the values and the weight.
/// Calls the operators `nsvq::add_rms_norm` and `nsvq::add_rms_norm_backward`.
SumAndRmsNorm add_rms_norm(const at::Tensor& x, const Branch& branch, const at::Tensor& weight,
                           double eps);

/// add_rms_norm in plain tensor operations and the type of x.
SumAndRmsNorm add_rms_norm_reference(const at::Tensor& x, const Branch& branch,
                                     const at::Tensor& weight, double eps);

/// Why the kernels do not take these; empty if they do.
std::string add_rms_norm_unavailable_reason(const at::Tensor& x, const at::Tensor& values,
                                            const at::Tensor& weight);

/// For the kernels: throws unless types, shapes and memory are as above.
void check_add_rms_norm(const at::Tensor& x, const Branch& branch, const at::Tensor& weight);

}  // namespace nsvq
