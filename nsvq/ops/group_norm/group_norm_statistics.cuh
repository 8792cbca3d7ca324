// Statistics are kept per channel and put together in a fixed order: for the groups, whatever their
// size, and for the gradients of weight and bias.
#pragma once

#include "nsvq/ops/group_norm/group_norm_passes.h"

namespace nsvq::group_norm_cuda {

/// Mean and sum of squared deviations of `count` pixels, for V channels. They are merged (Chan et
/// al.), so that a mean far from zero costs no digits.
template <int V>
struct Moments {
  float count, mean[V], squares[V];

  template <int kCount>
  __device__ void add(const float (&x)[kCount][V]) {
    Moments batch{kCount};
#pragma unroll
    for (int v = 0; v < V; ++v) {
      float sum = 0;
#pragma unroll
      for (int i = 0; i < kCount; ++i) sum += x[i][v];
      batch.mean[v] = sum * (1.0f / kCount);
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        const float apart = x[i][v] - batch.mean[v];
        batch.squares[v] += apart * apart;
      }
    }
    merge(batch);
  }

  __device__ void merge(const Moments& other) {
    const float total = count + other.count;
    if (total == 0) return;
    const float share = __fdividef(other.count, total);
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const float apart = other.mean[v] - mean[v];
      mean[v] += apart * share;
      squares[v] += other.squares[v] + apart * apart * (count * share);
    }
    count = total;
  }

  __device__ float2 of_channel(int v) const { return {mean[v], squares[v]}; }
};

__device__ inline float rstd_of(const Moments<1>& moments, float eps) {
  return 1 / sqrtf(moments.squares[0] / moments.count + eps);
}

/// Sums of du, the gradient of what goes into SiLU, and of du (x - mean), for V channels.
template <int V>
struct Sums {
  float plain[V], centred[V];

  __device__ void merge(const Sums& other) {
#pragma unroll
    for (int v = 0; v < V; ++v) {
      plain[v] += other.plain[v];
      centred[v] += other.centred[v];
    }
  }

  __device__ float2 of_channel(int v) const { return {plain[v], centred[v]}; }
};

/// The Pull of a group, from sums over it of weight * du and weight * du (x - mean).
__device__ inline Pull pull_of(const Shape& shape, const Sums<1>& weighted, float rstd) {
  const float share = rstd / (static_cast<float>(shape.pixels) * shape.group_size());
  return {weighted.plain[0] * share, weighted.centred[0] * share * rstd * rstd};
}

/// Merges the statistics of a warp's lanes; lane 0 gets the result.
template <typename Found>
__device__ void merge_lanes(Found& own) {
  static_assert(sizeof(Found) % sizeof(float) == 0);
  for (int apart = kWarp / 2; apart > 0; apart /= 2) {
    Found other;
#pragma unroll
    for (int i = 0; i < static_cast<int>(sizeof(Found) / sizeof(float)); ++i) {
      reinterpret_cast<float*>(&other)[i] =
          __shfl_down_sync(~0u, reinterpret_cast<float*>(&own)[i], apart);
    }
    own.merge(other);
  }
}

}  // namespace nsvq::group_norm_cuda
