// Eight adjacent numbers of fp32 or bf16 at an address of a multiple of 16 bytes, and sums of a
// warp.
#pragma once

#include "nsvq/ops/common/vectors.cuh"

namespace nsvq::transformer_cuda {

constexpr int kEight = 8, kWarp = 32;

struct Eight {
  float at[kEight];
};

__device__ inline Eight load_eight(const c10::BFloat16* from) {
  Eight x;
  vectors::unpack(vectors::load<kEight>(from), x.at);
  return x;
}

__device__ inline Eight load_eight(const float* from) {
  const auto low = vectors::load<4>(from), high = vectors::load<4>(from + 4);
  return {low.values[0],  low.values[1],  low.values[2],  low.values[3],
          high.values[0], high.values[1], high.values[2], high.values[3]};
}

__device__ inline void store_eight(const Eight& x, c10::BFloat16* to) {
  vectors::Pack<c10::BFloat16, kEight> pack;
#pragma unroll
  for (int v = 0; v < kEight; ++v) pack.values[v] = static_cast<c10::BFloat16>(x.at[v]);
  vectors::store(pack, to);
}

__device__ inline void store_eight(const Eight& x, float* to) {
  vectors::store(vectors::Pack<float, 4>{x.at[0], x.at[1], x.at[2], x.at[3]}, to);
  vectors::store(vectors::Pack<float, 4>{x.at[4], x.at[5], x.at[6], x.at[7]}, to + 4);
}

/// The sum over a warp's threads, in each of them.
__device__ inline float warp_sum(float part) {
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2) part += __shfl_xor_sync(~0u, part, step);
  return part;
}

}  // namespace nsvq::transformer_cuda
