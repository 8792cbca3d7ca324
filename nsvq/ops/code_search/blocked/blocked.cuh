// Definitions that the kernels of blocked.h share.
#pragma once

#include "nsvq/ops/code_search/blocked/blocked.h"
#include "nsvq/ops/code_search/hopper/error_bounds.cuh"

namespace nsvq::blocked {

constexpr int kThreads = 256, kWarps = kThreads / 32;  ///< in kernels that give a warp a row
constexpr float kAbsent = 1e38f;                       ///< a score that no code has

__device__ inline int lane() { return static_cast<int>(threadIdx.x % 32); }

__device__ inline float warp_sum(float value) {
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(~0u, value, step);
  return value;
}

/// A value centred and scaled: scaled first, so that the difference cannot overflow.
__device__ inline float placed(float value, float centre, float scale) {
  return value * scale - centre * scale;
}

__device__ inline float score_of(float product, float square) {
  return fmaf(-2.0f, product, square);
}

}  // namespace nsvq::blocked
