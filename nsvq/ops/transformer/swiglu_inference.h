#pragma once

// Not torch/types.h: the CUDA kernel includes this too, and nvcc is slow on it.
#include <ATen/core/Tensor.h>

namespace nsvq {

/// silu(gate) * up for sampling, without gradients: bf16 of equal shapes [..., C], rows of adjacent
/// numbers, such as the halves of a joint product; C is a multiple of 8. Rounded once. Calls the
/// operator `nsvq::swiglu_inference`.
at::Tensor swiglu_inference(const at::Tensor& gate, const at::Tensor& up);

/// swiglu_inference in plain tensor operations, in fp32 at least.
at::Tensor swiglu_inference_reference(const at::Tensor& gate, const at::Tensor& up);

/// For the kernels: throws unless shapes, types and memory are as above.
void check_swiglu_inference(const at::Tensor& gate, const at::Tensor& up);

}  // namespace nsvq
