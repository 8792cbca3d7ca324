// Search and NS loss by differences, for latents that no faster way decides: a block has some of
// them in shared memory and visits all codes.
#pragma once

#include "nsvq/ops/code_search/exact_distance.cuh"

namespace nsvq::scans {

struct Sums {
  double weights, losses;
};

constexpr int kThreads = 128;
constexpr int kRows = 8;  ///< latents that may share a load of the codes

/// All latents and codes.
struct Scan {
  Matrix latents, codes;
  int64_t dimension;
};

/// The latents of a block, at most kRows; `load` copies them to shared memory [kRows, d].
struct Group {
  const int32_t* latents;
  int rows;

  __device__ void load(const Scan& scan, float* shared) const {
    __syncthreads();
    for (int64_t i = threadIdx.x; i < rows * scan.dimension; i += kThreads) {
      const int64_t latent = latents[i / scan.dimension];
      shared[i] = scan.latents.values[latent * scan.dimension + i % scan.dimension];
    }
    __syncthreads();
  }
};

__device__ inline void add_square(float a, float b, float& sum) {
  const float difference = a - b;
  sum = fmaf(difference, difference, sum);
}

/// Squared distances of a code to the block's latents. Threads read rows of their own, so a load of
/// 16 bytes costs as much as one of 4: by fours where rows are aligned to them, in the same order.
__device__ inline void distances_to(const float* code, const float* latents, int rows, int64_t d,
                                    float (&distances)[kRows]) {
#pragma unroll
  for (float& distance : distances) distance = 0;
  const int64_t in_fours = d % 4 == 0 ? d : 0;
#pragma unroll 2
  for (int64_t k = 0; k < in_fours; k += 4) {
    const float4 values = *reinterpret_cast<const float4*>(code + k);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (r >= rows) break;
      const float4 latent = *reinterpret_cast<const float4*>(latents + r * d + k);
      add_square(latent.x, values.x, distances[r]);
      add_square(latent.y, values.y, distances[r]);
      add_square(latent.z, values.z, distances[r]);
      add_square(latent.w, values.w, distances[r]);
    }
  }
#pragma unroll 4
  for (int64_t k = in_fours; k < d; ++k) {
    const float value = code[k];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (r >= rows) break;
      add_square(latents[r * d + k], value, distances[r]);
    }
  }
}

/// Calls visit(code, distances) for the thread's share of the codes, in order. All threads of a
/// block take part in each step, those past the end with code -1.
template <typename Visit>
__device__ void each_code(const Scan& scan, const float* latents, int rows, Visit visit) {
  const int64_t d = scan.dimension, codes = scan.codes.rows;
  for (int64_t first = 0; first < codes; first += kThreads) {
    const int64_t j = first + threadIdx.x;
    float distances[kRows] = {};
    if (j < codes) distances_to(scan.codes.values + j * d, latents, rows, d, distances);
    visit(j < codes ? j : -1, distances);
  }
}

/// The least of a warp's positive numbers, whose bits have their order.
__device__ inline float least_of_warp(float distance) {
  return __uint_as_float(__reduce_min_sync(~0u, __float_as_uint(distance)));
}

/// The nearest codes of the block's latents, in shared memory.
// The fp32 distance has relative error below (d + 4) 2^-24 (differences, squares, sums) unless it
// leaves the normal range. fp64 decides where it does, or where it comes near the least that the
// warp has met so far.
__device__ inline void find_nearest(const Scan& scan, const float* latents, int rows,
                                    Nearest* nearest) {
  __shared__ Nearest found[kThreads];
  const int64_t d = scan.dimension;
  const float shrink = 1.0f - 3.0f * static_cast<float>(d + 4) * 0x1p-24f;
  Nearest best[kRows];
  float least[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    best[r] = {0, -1};
    least[r] = 1e38f;
  }
  each_code(scan, latents, rows, [&](int64_t code, const float(&distances)[kRows]) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (r >= rows) break;
      const bool normal = distances[r] > 1e-30f && distances[r] < 1e38f;
      least[r] = fminf(least[r], least_of_warp(code >= 0 && normal ? distances[r] : 1e38f));
      if (code < 0 || (normal && distances[r] * shrink > least[r])) continue;
      const double exact = exact_distance(latents + r * d, scan.codes.values + code * d, d);
      if (isfinite(exact) && wins({exact, code}, best[r])) best[r] = {exact, code};
    }
  });
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    if (r >= rows) break;
    __syncthreads();
    found[threadIdx.x] = best[r];
    for (int half = kThreads / 2; half > 0; half /= 2) {
      __syncthreads();
      if (static_cast<int>(threadIdx.x) < half &&
          wins(found[threadIdx.x + half], found[threadIdx.x])) {
        found[threadIdx.x] = found[threadIdx.x + half];
      }
    }
    if (threadIdx.x == 0) nearest[r] = found[0];
  }
  __syncthreads();
}

/// Sums over the codes for the block's latents, whose winners are known, in shared memory.
__device__ inline void find_sums(const Scan& scan, const Group& group, const float* latents,
                                 float rate, const Results& results, Sums* sums_of_all) {
  __shared__ Sums found[kThreads];
  const int rows = group.rows;
  Sums sums[kRows] = {};
  float winners[kRows];
  int64_t indices[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    winners[r] = r < rows ? results.distances[group.latents[r]] : 0;
    indices[r] = r < rows ? results.indices[group.latents[r]] : -1;
  }
  each_code(scan, latents, rows, [&](int64_t code, const float(&distances)[kRows]) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (r >= rows) break;
      const float e = exp2f(fminf((winners[r] - distances[r]) * rate, 0.0f));
      if (code < 0 || code == indices[r] || e == 0) continue;
      sums[r].weights += e;
      sums[r].losses += e * distances[r];
    }
  });
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    if (r >= rows) break;
    __syncthreads();
    found[threadIdx.x] = sums[r];
    for (int half = kThreads / 2; half > 0; half /= 2) {
      __syncthreads();
      if (static_cast<int>(threadIdx.x) < half) {
        found[threadIdx.x].weights += found[threadIdx.x + half].weights;
        found[threadIdx.x].losses += found[threadIdx.x + half].losses;
      }
    }
    if (threadIdx.x == 0) sums_of_all[r] = found[0];
  }
  __syncthreads();
}

__device__ inline void write_nearest(const Nearest& best, const ValueRange* range,
                                     const Results& results, int64_t row) {
  const bool none = best.code < 0 || range->code >= 0x7f800000u;
  results.indices[row] = none ? -1 : best.code;
  results.distances[row] = none ? __int_as_float(0x7fc00000) : static_cast<float>(best.distance);
}

__device__ inline void write_sums(const Sums& all, const Results& results, int64_t row) {
  const bool none = results.indices[row] < 0;
  const double nan = __longlong_as_double(0x7ff8000000000000);
  results.losses[row] = static_cast<float>(none ? nan : all.losses / (1 + all.weights));
  results.denominators[row] = static_cast<float>(none ? nan : 1 + all.weights);
}

}  // namespace nsvq::scans
