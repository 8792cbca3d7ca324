// Rows of differences to a crowd's centre, in fp16 (crowds.h).
#pragma once

#include "nsvq/ops/code_search/crowds/crowds.h"
#include "nsvq/ops/code_search/hopper/pack_rows.cuh"

namespace nsvq::crowds {

__device__ inline float warp_max(float value) {
  for (int step = 16; step > 0; step /= 2) {
    value = fmaxf(value, __shfl_xor_sync(~0u, value, step));
  }
  return value;
}

/// Writes a row's differences to its centre, in fp16, by a warp. `scale` is common to all rows.
template <int kPanels>
__device__ Difference pack_difference(const packing::Lane<kPanels>& row,
                                      const packing::Lane<kPanels>& centre, float scale,
                                      uint16_t* to) {
  float v[2 * kPanels], top = 0;
#pragma unroll
  for (int i = 0; i < 2 * kPanels; ++i) {
    v[i] = (row.values[i] - centre.values[i]) * scale;
    top = fmaxf(top, fabsf(v[i]));
  }
  top = warp_max(top);
  const bool overflow = !(top < 1e6f);  // a difference of finite values can overflow
  const int exponent = overflow ? 0 : exponent_for(top);
  const float up = scalbnf(1.0f, exponent), down = scalbnf(1.0f, -exponent);
  float square = 0, error = 0;
#pragma unroll
  for (int p = 0; p < kPanels; ++p) {
    __half h[2];
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      const float value = overflow ? 0.0f : v[2 * p + k];
      h[k] = __float2half_rn(value * up);
      const float off = (value * up - __half2float(h[k])) * down;
      square = fmaf(value, value, square);
      error = fmaf(off, off, error);
    }
    *reinterpret_cast<__half2*>(to + p * kPanelColumns + 2 * (threadIdx.x % 32)) =
        __halves2half2(h[0], h[1]);
  }
  square = packing::warp_sum(square);
  error = packing::warp_sum(error);
  return overflow ? unknown_difference() : difference_of(square, error, down);
}

}  // namespace nsvq::crowds
