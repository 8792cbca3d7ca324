// Rows of logits with their noise, and reductions of a block over a row: for softmax_rows.cu.
#pragma once

#include <climits>
#include <cmath>
#include <cstdint>

#include "nsvq/ops/random/philox.h"

namespace nsvq::softmax_rows_cuda {

constexpr int kThreads = 512, kWarp = 32, kWarps = kThreads / kWarp;
constexpr float kLowest = -3e38f;

/// Logits [n, K] and their noise; `first` is the number of the first row.
struct Rows {
  const float* logits;
  int64_t codes;
  const int64_t* seed;  ///< null: no noise
  int64_t first;
  bool in_fours;  ///< rows begin at multiples of 16 bytes

  __device__ bool has(int64_t code) const { return in_fours || (code >= 0 && code < codes); }

  /// Four numbers of the block's row of `values` [n, K].
  __device__ Four of(const float* values, int64_t code) const {
    const float* own = values + blockIdx.x * codes + code;
    if (in_fours) {
      const float4 four = *reinterpret_cast<const float4*>(own);
      return {four.x, four.y, four.z, four.w};
    }
    Four four{};
    for (int i = 0; i < 4; ++i) {
      if (has(code + i)) four.at[i] = own[i];
    }
    return four;
  }

  __device__ void put(const Four& four, float* values, int64_t code) const {
    float* own = values + blockIdx.x * codes + code;
    if (in_fours) {
      *reinterpret_cast<float4*>(own) = make_float4(four.at[0], four.at[1], four.at[2], four.at[3]);
      return;
    }
    for (int i = 0; i < 4; ++i) {
      if (has(code + i)) own[i] = four.at[i];
    }
  }

  /// Calls visit(code) for the thread's share of the block's row: fours of numbers, which share one
  /// call of the engine. Where rows are no multiples of four, `has` tells which numbers are the
  /// row's.
  template <typename Visit>
  __device__ void each(Visit visit) const {
    const int64_t begin = (first + blockIdx.x) * codes, end = begin + codes;
    for (int64_t four = begin / 4 + threadIdx.x; four * 4 < end; four += kThreads) {
      visit(four * 4 - begin);
    }
  }

  __device__ Four noise(int64_t code) const {
    if (!seed) return {};
    const int64_t place = (first + blockIdx.x) * codes + code;
    return gumbels_at(static_cast<uint64_t>(*seed), place / 4);
  }
};

struct Largest {
  float value;
  int code;

  __device__ static Largest none() { return {-INFINITY, INT_MAX}; }
  __device__ void merge(const Largest& other) {
    if (other.value > value || (other.value == value && other.code < code)) *this = other;
  }
  __device__ Largest from(int step) const {
    return {__shfl_xor_sync(~0u, value, step), __shfl_xor_sync(~0u, code, step)};
  }
};

/// a * of_a + b * of_b, symmetric in the two, so that all threads of a block get one result.
__device__ inline float weighted(float a, float of_a, float b, float of_b) {
  return __fadd_rn(__fmul_rn(a, of_a), __fmul_rn(b, of_b));
}

/// sum e^(x - top) and sum e^(x - top) y over pairs, `top` the largest x.
struct Mass {
  float top, sum, moment;

  __device__ static Mass none() { return {kLowest, 0, 0}; }
  __device__ void add(float x, float y) {
    if (x > top) {
      const float share = expf(top - x);
      sum *= share;
      moment *= share;
      top = x;
    }
    const float e = expf(x - top);
    sum += e;
    moment = fmaf(e, y, moment);
  }
  __device__ void merge(const Mass& other) {
    const float highest = fmaxf(top, other.top);
    const float own = expf(top - highest), theirs = expf(other.top - highest);
    sum = weighted(sum, own, other.sum, theirs);
    moment = weighted(moment, own, other.moment, theirs);
    top = highest;
  }
  __device__ Mass from(int step) const {
    return {__shfl_xor_sync(~0u, top, step), __shfl_xor_sync(~0u, sum, step),
            __shfl_xor_sync(~0u, moment, step)};
  }
};

/// Merges the parts of a block's threads; every thread gets the result.
template <typename Part>
__device__ Part of_block(Part part) {
  __shared__ Part parts[kWarps];
  const int lane = threadIdx.x % kWarp;
  for (int step = kWarp / 2; step > 0; step /= 2) part.merge(part.from(step));
  __syncthreads();
  if (lane == 0) parts[threadIdx.x / kWarp] = part;
  __syncthreads();
  part = parts[lane % kWarps];
  for (int step = kWarps / 2; step > 0; step /= 2) part.merge(part.from(step));
  return part;
}

}  // namespace nsvq::softmax_rows_cuda
