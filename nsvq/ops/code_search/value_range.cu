// The centre of the codes and the largest values (tile_layout.h).
#include <c10/cuda/CUDAException.h>

#include <algorithm>

#include "nsvq/ops/code_search/hopper/error_bounds.cuh"

namespace nsvq {

namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kSampledCodes = 1024, kSampledLatents = 256;  ///< sampled for the centre
constexpr int kBatch = 32, kLoads = 4;                      ///< loads in flight, to hide latency
constexpr int kBlocks = 4;                                  ///< per multiprocessor

/// A mean, rounded towards zero to a multiple of at most a quarter of its column's standard
/// deviation. It centres as well as the mean itself, and values with few digits, such as whole
/// numbers, still have few digits once it is subtracted.
__device__ float rounded_centre(float mean, float mean_square) {
  const float variance = mean_square - mean * mean;
  if (!(variance > 0.0f) || isinf(variance)) return mean;
  const float step = exp2f(floorf(0.5f * log2f(variance)) - 2.0f);
  const float steps = truncf(mean / step);
  return isfinite(steps) ? steps * step : mean;
}

/// Sums over some rows of a sample of n rows: `mean` of values / n, and `square` of (values / n)^2.
/// Over all n rows `mean` is the mean and n `square` the mean square.
struct Moments {
  float mean, square;
};

/// Moments of 32 columns, one per lane, over the warp's share of a sample of the rows. With
/// `finite_only` values that are not finite count as 0.
__device__ Moments part_of_moments(Matrix matrix, int64_t d, int64_t column, int sample,
                                   bool finite_only) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  Moments own{0, 0};
  if (column + lane >= d || sample == 0) return own;
  const int64_t step = matrix.rows / sample * d;
  const float share =
      1.0f / static_cast<float>(sample);  // applied to each value, since a sum can overflow
  const float* values = matrix.values + column + lane;
  for (int first = warp; first < sample; first += kBatch * kWarps) {
    float batch[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int row = first + i * kWarps;
      batch[i] = values[(row < sample ? row : 0) * step] * (row < sample ? share : 0.0f);
    }
#pragma unroll
    for (const float value : batch) {
      const float counted = finite_only && !isfinite(value) ? 0.0f : value;
      own.mean += counted;
      own.square += counted * counted;
    }
  }
  return own;
}

/// The centre of 32 columns: the rounded mean of the codes, or 0 where the latents' mean is nearer
/// to 0 than to it and it is within 4 standard deviations of 0, so that codes lie about 0 too.
/// Without this exception a group of codes far away would move latents about 0, and the codes near
/// them, off 0, and scores of fp16 values would lose digits.
__device__ void centre_of(Matrix latents, Matrix codes, int64_t d, int64_t column, float* centre) {
  __shared__ Moments parts[kWarps][32];
  __shared__ float latent_means[kWarps][32];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const auto sample = static_cast<int>(min(codes.rows, int64_t{kSampledCodes}));
  const auto few = static_cast<int>(min(latents.rows, int64_t{kSampledLatents}));
  latent_means[warp][lane] = part_of_moments(latents, d, column, few, true).mean;
  parts[warp][lane] = part_of_moments(codes, d, column, sample, false);
  __syncthreads();
  if (warp > 0 || column + lane >= d) return;
  Moments code = parts[0][lane];
  float latent = latent_means[0][lane];
  for (int i = 1; i < kWarps; ++i) {
    code.mean += parts[i][lane].mean;
    code.square += parts[i][lane].square;
    latent += latent_means[i][lane];
  }
  code.square *= static_cast<float>(sample);
  const float own = rounded_centre(code.mean, code.square);
  const float variance = code.square - code.mean * code.mean;
  const bool apart = fabsf(latent - own) > fabsf(latent);
  const bool spread = own * own <= 4 * 4 * variance;
  centre[column + lane] = apart && spread ? 0.0f : own;
}

/// Bits of |value|; with `finite_only` 0 for values that are not finite.
__device__ uint32_t magnitude(float value, bool finite_only) {
  const uint32_t bits = __float_as_uint(value) & 0x7fffffffu;
  return finite_only && bits >= 0x7f800000u ? 0u : bits;
}

__device__ uint32_t largest_in(const float* values, int64_t count, bool finite_only, int64_t first,
                               int64_t step) {
  const auto* quads = reinterpret_cast<const float4*>(values);
  uint32_t largest = 0;
  const int64_t last = count / 4;
  for (int64_t i = first; i < last; i += kLoads * step) {
    float4 batch[kLoads];
#pragma unroll
    for (int k = 0; k < kLoads; ++k) batch[k] = quads[min(i + k * step, last - 1)];
#pragma unroll
    for (const float4& v : batch) {
      largest = max(max(largest, magnitude(v.x, finite_only)),
                    max(magnitude(v.y, finite_only),
                        max(magnitude(v.z, finite_only), magnitude(v.w, finite_only))));
    }
  }
  const int64_t rest = count / 4 * 4 + first;
  return rest < count ? max(largest, magnitude(values[rest], finite_only)) : largest;
}

__global__ void __launch_bounds__(kThreads)
    value_range_kernel(Matrix latents, Matrix codes, int64_t d, float* centre, ValueRange* range) {
  const int centre_blocks = static_cast<int>((d + 31) / 32);
  if (static_cast<int>(blockIdx.x) < centre_blocks) {
    centre_of(latents, codes, d, blockIdx.x * 32, centre);
    return;
  }
  const int64_t first = static_cast<int64_t>(blockIdx.x - centre_blocks) * kThreads + threadIdx.x;
  const int64_t step = static_cast<int64_t>(gridDim.x - centre_blocks) * kThreads;
  uint32_t code = largest_in(codes.values, codes.rows * d, false, first, step);
  uint32_t latent = largest_in(latents.values, latents.rows * d, true, first, step);
  // One atomic operation per block: those of all blocks go to one address, one after the other.
  __shared__ uint32_t largest[2][kWarps];
  largest[0][threadIdx.x / 32] = __reduce_max_sync(~0u, code);
  largest[1][threadIdx.x / 32] = __reduce_max_sync(~0u, latent);
  __syncthreads();
  if (threadIdx.x >= 2) return;
  uint32_t all = 0;
  for (const uint32_t one : largest[threadIdx.x]) all = max(all, one);
  atomicMax(threadIdx.x == 0 ? &range->code : &range->latent, all);
}

}  // namespace

void measure_values(Matrix latents, Matrix codes, int64_t dimension, float* centre,
                    ValueRange* range, int processors, cudaStream_t stream) {
  const int64_t quads = std::max(latents.rows, codes.rows) * dimension / 4;
  const int64_t blocks = std::clamp<int64_t>((quads + kLoads * kThreads - 1) / (kLoads * kThreads),
                                             1, int64_t{kBlocks} * processors);
  value_range_kernel<<<static_cast<unsigned>((dimension + 31) / 32 + blocks), kThreads, 0,
                       stream>>>(latents, codes, dimension, centre, range);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

}  // namespace nsvq
