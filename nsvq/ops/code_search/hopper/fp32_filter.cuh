// A filter of candidates by fp32 distances, so that fp64 decides among few.
#pragma once

#include "nsvq/ops/code_search/crowds/crowds.h"
#include "nsvq/ops/code_search/exact_distance.cuh"
#include "nsvq/ops/code_search/hopper/pack_rows.cuh"

namespace nsvq {

/// Sums over the warp of eight numbers per lane: lane i gets the sum of number i / 4.
__device__ inline float sum_of_eight(float (&v)[8]) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int half = 4, step = 16; half > 0; half /= 2, step /= 2) {
#pragma unroll
    for (int i = 0; i < half; ++i) {
      const bool upper = lane & step;
      const float other = __shfl_xor_sync(~0u, upper ? v[i] : v[i + half], step);
      v[i] = (upper ? v[i + half] : v[i]) + other;
    }
  }
  v[0] += __shfl_xor_sync(~0u, v[0], 2);
  return v[0] + __shfl_xor_sync(~0u, v[0], 1);
}

/// Codes that may be the nearest so far by their fp32 distances: one at most in each lane, measured
/// in fp64 once another one comes, if it may still be the nearest. fp32 distances are off by less
/// than (d + 4) 2^-24 of themselves (differences, squares, sums of positive numbers) within the
/// normal range.
template <int kPanels>
struct Finalists {
  const Problem& problem;
  const float* latent;
  packing::Lane<kPanels> values;
  Nearest best{0, -1};
  float least = 1e38f, distance = 0;
  int32_t pending = -1;

  __device__ Finalists(const Problem& all, int64_t row)
      : problem(all), latent(all.latents.values + row * all.dimension) {
    values.load(latent, all.dimension);
  }

  __device__ static bool normal(float some) { return some > 1e-30f && some < 1e38f; }
  __device__ bool open(float some) const {
    const float shrink = 1.0f - 3.0f * static_cast<float>(problem.dimension + 4) * 0x1p-24f;
    return !normal(some) || some * shrink <= least;
  }
  __device__ void settle() {
    if (pending < 0 || !open(distance)) return;
    const int64_t d = problem.dimension;
    const Nearest other{exact_distance(latent, problem.codes.values + pending * d, d), pending};
    if (wins(other, best)) best = other;
  }
  /// The fp32 distance of the lane's code among up to 32: the whole warp reads each row, eight rows
  /// at a time to hide latency.
  __device__ float measure(const int32_t* codes, int count) const {
    const int lane = threadIdx.x % 32;
    float own = 0;
    for (int first = 0; first < count; first += 8) {
      float sums[8];
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const int64_t code = codes[min(first + i, count - 1)];
        packing::Lane<kPanels> other;
        other.load(problem.codes.values + code * problem.dimension, problem.dimension);
        sums[i] = 0;
#pragma unroll
        for (int k = 0; k < 2 * kPanels; ++k) {
          const float difference = values.values[k] - other.values[k];
          sums[i] = fmaf(difference, difference, sums[i]);
        }
      }
      const float one = __shfl_sync(~0u, sum_of_eight(sums), (lane - first) * 4 & 31);
      if (lane >= first && lane < first + 8) own = one;
    }
    return own;
  }
  __device__ void add(const int32_t* codes, int count) {
    const int lane = threadIdx.x % 32;
    const float own = measure(codes, count);
    const bool there = lane < count;
    const float some = there && normal(own) ? own : 1e38f;
    least = fminf(least, __uint_as_float(__reduce_min_sync(~0u, __float_as_uint(some))));
    if (!there || !open(own)) return;
    settle();
    pending = codes[lane];
    distance = own;
  }
};

}  // namespace nsvq
