// Distances of candidates by differences.
#pragma once

#include "nsvq/ops/code_search/blocked/blocked.cuh"
#include "nsvq/ops/code_search/exact_distance.cuh"

namespace nsvq::blocked {

/// Calls add(a[k], b[k]) in the order of k, with loads of 16 bytes where rows are aligned to them.
template <typename Add>
__device__ void each_pair(const float* a, const float* b, int64_t d, Add add) {
  if (d % 4 == 0) {
#pragma unroll 4
    for (int64_t k = 0; k < d; k += 4) {
      const float4 x = *reinterpret_cast<const float4*>(a + k);
      const float4 y = *reinterpret_cast<const float4*>(b + k);
      add(x.x, y.x);
      add(x.y, y.y);
      add(x.z, y.z);
      add(x.w, y.w);
    }
  } else {
#pragma unroll 8
    for (int64_t k = 0; k < d; ++k) add(a[k], b[k]);
  }
}

/// Squared distance in fp64, term by term in their order and not fused, as exact_distance computes
/// it.
__device__ inline double measured(const float* latent, const float* code, int64_t d) {
  double sum = 0;
  each_pair(latent, code, d, [&](float a, float b) {
    const double difference = __dsub_rn(a, b);
    sum = __dadd_rn(sum, __dmul_rn(difference, difference));
  });
  return sum;
}

/// Squared distance in fp32, off by less than (d + 4) 2^-24 of it unless it leaves the normal
/// range.
__device__ inline float roughly_measured(const float* latent, const float* code, int64_t d) {
  float sum = 0;
  each_pair(latent, code, d, [&](float a, float b) { sum = fmaf(a - b, a - b, sum); });
  return sum;
}

/// Whether a distance in fp32 may belong to the nearest code: it comes near the least that any warp
/// has met so far, or leaves the normal range. For all lanes of a warp.
__device__ inline bool near_least(float rough, float shrink, uint32_t* least) {
  const bool normal = rough > 1e-30f && rough < kAbsent;
  const uint32_t of_warp = __reduce_min_sync(~0u, __float_as_uint(normal ? rough : kAbsent));
  uint32_t so_far = 0;
  if (lane() == 0) so_far = min(atomicMin(least, of_warp), of_warp);
  so_far = __shfl_sync(~0u, so_far, 0);
  return !normal || rough * shrink <= __uint_as_float(so_far);
}

/// Squared distance in fp64 by a whole warp, for one candidate: terms are added in the order of
/// `measured`, but loads do not wait for each other.
__device__ inline double measured_by_warp(const float* latent, const float* code, int64_t d) {
  double sum = 0;
#pragma unroll 4
  for (int64_t first = 0; first < d; first += 32) {
    const int64_t k = first + lane();
    const double difference = k < d ? __dsub_rn(latent[k], code[k]) : 0;
    const double square = __dmul_rn(difference, difference);
#pragma unroll
    for (int i = 0; i < 32; ++i) sum = __dadd_rn(sum, __shfl_sync(~0u, square, i));
  }
  return sum;
}

}  // namespace nsvq::blocked
