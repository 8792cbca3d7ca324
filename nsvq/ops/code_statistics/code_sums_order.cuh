// Rows in the order of their codes. A few thousand rows are ranked by comparing all with all, in
// one launch that takes less time than the sums' zeros; more are left to a radix sort.
#pragma once

#include <c10/macros/Macros.h>

#include <climits>
#include <cstdint>

#include "nsvq/ops/common/grid.h"

namespace nsvq::code_sums_cuda {

constexpr int kWarp = 32;
constexpr int kRankThreads = 1024;
constexpr int kRanksPerLane = 2;
constexpr int kRanked = kRanksPerLane * kWarp;  // rows per block
constexpr int kTile = 8192;                     // rows that they are compared with at a time
constexpr int kMostRanked = 16384;              // time grows with the square

/// Memory that all blocks of a kernel set to zero; it begins at a multiple of 16 bytes.
struct Zeros {
  float* data;
  int64_t count;

  __device__ void write() const {
    const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
    const int64_t thread = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    auto* vectors = reinterpret_cast<float4*>(data);
    for (int64_t i = thread; i < count / 4; i += step) vectors[i] = float4{0, 0, 0, 0};
    if (thread < count % 4) data[count / 4 * 4 + thread] = 0;
  }
};

__device__ inline int checked_code(int64_t index, int64_t codes) {
  CUDA_KERNEL_ASSERT(index >= 0 && index < codes);
  return static_cast<int>(index);
}

__device__ inline int count_below(const int4& codes, int limit) {
  return (codes.x < limit) + (codes.y < limit) + (codes.z < limit) + (codes.w < limit);
}

/// How many of four rows, the first `ahead` rows before ours, come before it in the order: those of
/// a lower code, and of the same code if their row is lower.
__device__ inline int count_before(const int4& codes, int code, int ahead) {
  return (codes.x < code + (ahead > 0)) + (codes.y < code + (ahead > 1)) +
         (codes.z < code + (ahead > 2)) + (codes.w < code + (ahead > 3));
}

/// Ranks the rows: a row's rank is the number of rows before it, and each warp counts in its share
/// of all rows for all rows of the block. Blocks beyond the rows only write zeros.
static __global__ void __launch_bounds__(kRankThreads)
    rank_rows(const int64_t* __restrict__ indices, int count, int64_t codes,
              int* __restrict__ sorted, int* __restrict__ order, Zeros zeros) {
  __shared__ int4 tile[kTile / 4];
  __shared__ int places[kRanked];
  zeros.write();
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, first = blockIdx.x * kRanked;
  if (first >= count) return;
  int code[kRanksPerLane], before[kRanksPerLane] = {};
#pragma unroll
  for (int r = 0; r < kRanksPerLane; ++r) {
    const int row = first + lane + r * kWarp;
    code[r] = row < count ? checked_code(indices[row], codes) : 0;
  }
  if (threadIdx.x < kRanked) places[threadIdx.x] = 0;
  for (int begin = 0; begin < count; begin += kTile) {
    const int vectors = (min(kTile, count - begin) + 3) / 4;
    __syncthreads();
    for (int j = threadIdx.x; j < vectors * 4; j += kRankThreads) {
      reinterpret_cast<int*>(tile)[j] =
          begin + j < count ? static_cast<int>(indices[begin + j]) : INT_MAX;
    }
    __syncthreads();
    for (int j = warp; j < vectors; j += kRankThreads / kWarp) {
      const int4 four = tile[j];
      const int apart = begin + j * 4 - first;
#pragma unroll
      for (int r = 0; r < kRanksPerLane; ++r) {
        if (apart < 0) {
          before[r] += count_below(four, code[r] + 1);
        } else if (apart >= kRanked) {
          before[r] += count_below(four, code[r]);
        } else {
          before[r] += count_before(four, code[r], lane + r * kWarp - apart);
        }
      }
    }
  }
#pragma unroll
  for (int r = 0; r < kRanksPerLane; ++r) atomicAdd(places + lane + r * kWarp, before[r]);
  __syncthreads();
  if (warp > 0) return;
#pragma unroll
  for (int r = 0; r < kRanksPerLane; ++r) {
    const int row = first + lane + r * kWarp, place = places[lane + r * kWarp];
    if (row >= count) continue;
    sorted[place] = code[r];
    order[place] = row;
  }
}

/// Writes codes and rows as keys and values of a sort.
static __global__ void __launch_bounds__(kRankThreads)
    copy_rows(const int64_t* __restrict__ indices, int count, int64_t codes, int* __restrict__ keys,
              int* __restrict__ values, Zeros zeros) {
  zeros.write();
  const int step = gridDim.x * kRankThreads;
  for (int i = blockIdx.x * kRankThreads + threadIdx.x; i < count; i += step) {
    keys[i] = checked_code(indices[i], codes);
    values[i] = i;
  }
}

}  // namespace nsvq::code_sums_cuda
