#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace nsvq {

/// Whether eight adjacent numbers of a contiguous tensor lie at a multiple of 16 bytes.
inline bool in_eights(const at::Tensor& x) {
  return x.is_contiguous() && x.size(-1) % 8 == 0 &&
         reinterpret_cast<uintptr_t>(x.const_data_ptr()) % 16 == 0;
}

}  // namespace nsvq
