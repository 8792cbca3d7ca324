#pragma once

// Not torch/types.h: the CUDA kernel includes this too, and nvcc is slow on it.
#include <ATen/core/Tensor.h>

#include <string>
#include <utility>

namespace nsvq {

/// silu(a) * b for a and b of one shape and type, computed in fp32 at least and rounded once;
/// without gradients. On a GPU both are bf16. Calls the operator `nsvq::swiglu`.
at::Tensor swiglu(const at::Tensor& a, const at::Tensor& b);

/// The gradients of swiglu by a and b. `gradient` becomes swiglu(a, b), which the forward pass
/// therefore need not keep. Calls the operator `nsvq::swiglu_backward_`.
std::pair<at::Tensor, at::Tensor> swiglu_backward(const at::Tensor& gradient, const at::Tensor& a,
                                                  const at::Tensor& b);

/// For the kernels: throws unless shapes, types and memory are as above.
void check_swiglu(const at::Tensor& a, const at::Tensor& b);

}  // namespace nsvq
