#pragma once

// Not torch/types.h: the CUDA kernel includes this too, and nvcc is slow on it.
#include <ATen/core/Tensor.h>

namespace nsvq {

inline constexpr int64_t kPatchNumbers = 32, kMostPatchChannels = 3;

/// The pixels that a 3x3 convolution with padding sees: images [N, C, H, W] with C at most 3 to
/// [N * H * W, 32] of `type`, fp32, bf16 or fp16: number c * 9 + dy * 3 + dx of a row is channel c
/// at offset (dy - 1, dx - 1), zero outside the image; the numbers from 9 C on are zeros. The
/// convolution is then one matrix product, for which a GPU has better kernels than for few
/// channels. It has no gradient, so autograd must be off. Calls the operator
/// `nsvq::image_patches`.
at::Tensor image_patches(const at::Tensor& images, at::ScalarType type);

/// image_patches in plain tensor operations.
at::Tensor image_patches_reference(const at::Tensor& images, at::ScalarType type);

/// For the kernel: throws unless shapes and types are as above.
void check_patches(const at::Tensor& images, at::ScalarType type);

}  // namespace nsvq
