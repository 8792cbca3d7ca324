#include <c10/cuda/CUDAException.h>

#include <algorithm>

#include "nsvq/ops/code_search/exact_distance.cuh"

namespace nsvq {

namespace {

constexpr int kThreads = 256;
constexpr int kCodes = 8;  ///< codes of a block

/// Squared distance of each latent to its winner.
__global__ void winners_distances(Matrix latents, Matrix codes, int64_t d, const int64_t* indices,
                                  float* distances) {
  const int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x;
  if (i >= latents.rows) return;
  const int64_t winner = indices[i];
  distances[i] = winner < 0 ? 0
                            : static_cast<float>(exact_distance(latents.values + i * d,
                                                                codes.values + winner * d, d));
}

struct Winners {
  const int64_t* indices;
  const float* distances;
  const float* denominators;
};

/// Weights of a latent for the block's codes, 0 for the one that won it.
__device__ void weights_of(const Scan& scan, const Winners& winners, int64_t latent, int64_t first,
                           const float* codes, float rate, float* weights) {
  const int64_t d = scan.dimension;
  float distances[kCodes] = {};
  const bool weighs = latent < scan.latents.rows && winners.indices[latent] >= 0;
  if (weighs) {
#pragma unroll 4
    for (int64_t k = 0; k < d; ++k) {
      const float value = scan.latents.values[latent * d + k];
#pragma unroll
      for (int c = 0; c < kCodes; ++c) {
        const float difference = value - codes[c * d + k];
        distances[c] = fmaf(difference, difference, distances[c]);
      }
    }
  }
#pragma unroll
  for (int c = 0; c < kCodes; ++c) {
    const bool counts =
        weighs && first + c < scan.codes.rows && winners.indices[latent] != first + c;
    weights[c] = counts ? exp2f(fminf((winners.distances[latent] - distances[c]) * rate, 0.0f)) /
                              winners.denominators[latent]
                        : 0.0f;
  }
}

/// Shared memory: codes [8, d], weighted latents [8, d], weights [256, 8]. A thread owns columns of
/// the weighted sums, so their order is fixed.
__global__ void __launch_bounds__(kThreads)
    pulls_kernel(const __grid_constant__ Scan scan, const __grid_constant__ Winners winners,
                 float rate, float* grads) {
  extern __shared__ float codes[];
  const int64_t d = scan.dimension, first = blockIdx.x * int64_t{kCodes};
  float* weighted = codes + kCodes * d;
  float* weights = weighted + kCodes * d;
  for (int64_t i = threadIdx.x; i < kCodes * d; i += kThreads) {
    codes[i] = first + i / d < scan.codes.rows ? scan.codes.values[first * d + i] : 0.0f;
    weighted[i] = 0;
  }
  float total = 0;  // of code threadIdx.x, in the first threads
  for (int64_t start = 0; start < scan.latents.rows; start += kThreads) {
    __syncthreads();
    weights_of(scan, winners, start + threadIdx.x, first, codes, rate,
               weights + threadIdx.x * kCodes);
    __syncthreads();
    const auto count = static_cast<int>(min(scan.latents.rows - start, int64_t{kThreads}));
    for (int64_t i = threadIdx.x; i < kCodes * d; i += kThreads) {
      const float* column = scan.latents.values + start * d + i % d;
      float sum = 0;
#pragma unroll 8
      for (int l = 0; l < count; ++l) {
        const float weight = weights[l * kCodes + i / d];
        // A latent that is not finite has no weight.
        sum = weight > 0 ? fmaf(weight, column[l * d], sum) : sum;
      }
      weighted[i] += sum;
    }
    if (threadIdx.x < kCodes) {
      float sum = 0;
      for (int l = 0; l < count; ++l) sum += weights[l * kCodes + threadIdx.x];
      total += sum;
    }
  }
  __shared__ float totals[kCodes];
  if (threadIdx.x < kCodes) totals[threadIdx.x] = total;
  __syncthreads();
  for (int64_t i = threadIdx.x; i < kCodes * d && first + i / d < scan.codes.rows; i += kThreads) {
    grads[first * d + i] = fmaf(totals[i / d], codes[i], -weighted[i]);
  }
}

__global__ void add_parts_kernel(const float* parts, int splits, int64_t count, float* grads) {
  const int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x;
  if (i >= count) return;
  float sum = 0;
  for (int split = 0; split < splits; ++split) sum += parts[split * count + i];
  grads[i] = sum;
}

unsigned blocks_for(int64_t count, int64_t each) {
  return static_cast<unsigned>((count + each - 1) / each);
}

}  // namespace

void scan_codebook_grad(const Scan& scan, double tau, const int64_t* indices,
                        const float* denominators, float* distances, float* grads,
                        cudaStream_t stream) {
  winners_distances<<<blocks_for(scan.latents.rows, kThreads), kThreads, 0, stream>>>(
      scan.latents, scan.codes, scan.dimension, indices, distances);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  const auto bytes =
      static_cast<int>((2 * kCodes * scan.dimension + kThreads * kCodes) * sizeof(float));
  C10_CUDA_CHECK(
      cudaFuncSetAttribute(pulls_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  const auto rate = static_cast<float>(std::min(1.4426950408889634 / tau, 1e30));
  pulls_kernel<<<blocks_for(scan.codes.rows, kCodes), kThreads, bytes, stream>>>(
      scan, {indices, distances, denominators}, rate, grads);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

void add_parts(const float* parts, int splits, int64_t count, float* grads, cudaStream_t stream) {
  add_parts_kernel<<<blocks_for(count, kThreads), kThreads, 0, stream>>>(parts, splits, count,
                                                                         grads);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

}  // namespace nsvq
