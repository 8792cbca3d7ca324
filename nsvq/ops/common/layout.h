#pragma once

#include <ATen/core/Tensor.h>

namespace nsvq {

/// Whether the channels of an image [N, C, H, W] are adjacent in memory.
inline bool channels_last(const at::Tensor& x) {
  return x.suggest_memory_format() == at::MemoryFormat::ChannelsLast;
}

/// Whether kernels are made for numbers of the tensor's type: fp32, bf16, fp16.
inline bool has_kernels_type(const at::Tensor& x) {
  const auto type = x.scalar_type();
  return type == at::kFloat || type == at::kBFloat16 || type == at::kHalf;
}

}  // namespace nsvq
