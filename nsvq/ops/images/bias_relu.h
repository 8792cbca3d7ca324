#pragma once

// Not torch/types.h: the CUDA kernel includes this too, and nvcc is slow on it.
#include <ATen/core/Tensor.h>

namespace nsvq {

/// relu(x + bias) with bias [C] by channel of x [N, C, H, W], for the output of a convolution that
/// ran without its bias: channels-last x in fp32, bf16 or fp16 is written over and returned, in
/// one pass, unless it is a leaf that wants a gradient. The sum is fp32, rounded once to x's type.
/// Calls the operator `nsvq::bias_relu_`.
at::Tensor bias_relu(const at::Tensor& x, const at::Tensor& bias);

/// bias_relu in plain tensor operations; x is left alone.
at::Tensor bias_relu_reference(const at::Tensor& x, const at::Tensor& bias);

/// For the kernels: throws unless shapes, types and memory are as above.
void check_bias_relu(const at::Tensor& x, const at::Tensor& bias);

}  // namespace nsvq
