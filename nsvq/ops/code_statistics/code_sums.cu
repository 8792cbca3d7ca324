// Sums of latents by code: the rows are sorted by code, then a warp per code adds its rows in
// order. Where they are many a block adds them: each warp a fixed share, then the warps' sums in
// order. Atomics are on integers alone, so that runs repeat.

#include <ATen/Dispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/cub.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/library.h>

#include <algorithm>
#include <bit>
#include <climits>

#include "nsvq/ops/code_statistics/code_sums_order.cuh"

namespace nsvq {

void check_code_sums(const at::Tensor& latents, const at::Tensor& indices);

namespace code_sums_cuda {

namespace {

constexpr int kWarps = 16;
constexpr int kPerLane = 4;
constexpr int kColumns = kPerLane * kWarp;  // per pass over the rows

template <typename T>
struct Rows {
  const T* latents;
  const int *codes, *order;  // sorted by code
  int count;
  int64_t dimension;
  float* sums;
};

/// The end of the rows of the code whose first row is `begin`; `begin` if that is no code's first
/// row.
__device__ int end_of_code(const int* codes, int count, int begin, int lane) {
  if (begin >= count) return begin;
  const int code = codes[begin];
  if (begin > 0 && codes[begin - 1] == code) return begin;
  const int next = begin + 1 + lane;
  const unsigned same = __ballot_sync(~0u, next < count && codes[next] == code);
  if (same != ~0u) return begin + __ffs(~same);
  int low = begin + 1 + kWarp, high = count;
  while (low < high) {
    const int middle = low + (high - low) / 2;
    if (codes[middle] == code) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

/// Adds a lane's columns of a row; `left` columns of the row are left.
template <typename T>
__device__ void add_columns(const T* row, int64_t left, int lane, float (&sum)[kPerLane]) {
#pragma unroll
  for (int part = 0; part < kPerLane; ++part) {
    const int j = lane + part * kWarp;
    if (j < left) sum[part] += static_cast<float>(row[j]);
  }
}

/// Adds the rows of a code, at most kWarp of them, by one warp.
template <typename T>
__device__ void add_few(const Rows<T>& rows, int begin, int end, int lane) {
  const int own = begin + lane < end ? rows.order[begin + lane] : 0;
  float* to = rows.sums + rows.codes[begin] * rows.dimension;
  for (int64_t column = 0; column < rows.dimension; column += kColumns) {
    float sum[kPerLane] = {};
#pragma unroll 4
    for (int i = 0; i < end - begin; ++i) {
      const int64_t row = __shfl_sync(~0u, own, i);
      add_columns(rows.latents + row * rows.dimension + column, rows.dimension - column, lane, sum);
    }
#pragma unroll
    for (int part = 0; part < kPerLane; ++part) {
      const int64_t j = column + lane + part * kWarp;
      if (j < rows.dimension) to[j] = sum[part];
    }
  }
}

/// Adds the rows of a code, by all warps of a block.
template <typename T>
__device__ void add_many(const Rows<T>& rows, int begin, int end, int warp, int lane) {
  __shared__ float parts[kWarps][kColumns];
  float* to = rows.sums + rows.codes[begin] * rows.dimension;
  for (int64_t column = 0; column < rows.dimension; column += kColumns) {
    float sum[kPerLane] = {};
#pragma unroll 8
    for (int i = begin + warp; i < end; i += kWarps) {
      const T* row = rows.latents + rows.order[i] * rows.dimension + column;
      add_columns(row, rows.dimension - column, lane, sum);
    }
#pragma unroll
    for (int part = 0; part < kPerLane; ++part) parts[warp][lane + part * kWarp] = sum[part];
    __syncthreads();
    for (int j = threadIdx.x; j < kColumns && column + j < rows.dimension; j += blockDim.x) {
      float total = 0;
      for (int part = 0; part < kWarps; ++part) total += parts[part][j];
      to[column + j] = total;
    }
    __syncthreads();
  }
}

/// A warp for each sorted row; the first of a code adds all of them.
template <typename T>
__global__ void __launch_bounds__(kWarp* kWarps) add_rows(Rows<T> rows) {
  __shared__ int ends[kWarps];  // of the rows of codes with many
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int first = blockIdx.x * kWarps, begin = first + warp;
  const int end = end_of_code(rows.codes, rows.count, begin, lane);
  const bool many = end - begin > kWarp;
  if (lane == 0) ends[warp] = many ? end : 0;
  if (!many && end > begin) add_few(rows, begin, end, lane);
  __syncthreads();
  for (int i = 0; i < kWarps; ++i) {
    if (ends[i] > 0) add_many(rows, first + i, ends[i], warp, lane);
  }
}

/// Codes and rows sorted by code, [2, N] int32; zeroes the sums as well.
at::Tensor sort_rows(const at::Tensor& indices, int64_t codes, const at::Tensor& sums) {
  const auto stream = at::cuda::getCurrentCUDAStream();
  const int count = static_cast<int>(indices.size(0));
  const Zeros zeros{sums.mutable_data_ptr<float>(), sums.numel()};
  const auto* given = indices.const_data_ptr<int64_t>();
  const auto sorted = at::empty({2, count}, indices.options().dtype(at::kInt));
  auto* to = sorted.mutable_data_ptr<int>();
  const int64_t processors = at::cuda::getCurrentDeviceProperties()->multiProcessorCount;
  const int64_t for_zeros = std::min(divided(zeros.count, 4 * kRankThreads), 2 * processors);
  if (count <= kMostRanked) {
    const auto blocks = std::max(divided(count, kRanked), for_zeros);
    rank_rows<<<blocks, kRankThreads, 0, stream>>>(given, count, codes, to, to + count, zeros);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return sorted;
  }
  const auto pairs = at::empty_like(sorted);
  auto* keys = pairs.mutable_data_ptr<int>();
  const auto blocks = std::clamp(divided(count, kRankThreads), for_zeros, int64_t{4096});
  copy_rows<<<blocks, kRankThreads, 0, stream>>>(given, count, codes, keys, keys + count, zeros);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  at::cuda::cub::radix_sort_pairs(keys, to, keys + count, to + count, count, /*descending=*/false,
                                  /*begin_bit=*/0, std::bit_width(static_cast<uint64_t>(codes)));
  return sorted;
}

at::Tensor code_sums(const at::Tensor& latents, const at::Tensor& indices, int64_t codes) {
  check_code_sums(latents, indices);
  const c10::cuda::CUDAGuard guard(latents.device());
  const auto rows = latents.contiguous();
  const int64_t count = rows.size(0), dimension = rows.size(1);
  TORCH_CHECK(count <= INT_MAX / 2 && codes < INT_MAX, "code_sums: too many rows or codes: ", count,
              " and ", codes);
  const auto options = rows.options().dtype(at::kFloat);
  if (count == 0 || codes == 0 || dimension == 0) return at::zeros({codes, dimension}, options);
  auto sums = at::empty({codes, dimension}, options);
  const auto sorted = sort_rows(indices.contiguous(), codes, sums);
  const auto* order = sorted.const_data_ptr<int>();
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, rows.scalar_type(), "code_sums", [&] {
    add_rows<<<divided(count, kWarps), kWarp * kWarps, 0, at::cuda::getCurrentCUDAStream()>>>(
        Rows<scalar_t>{rows.const_data_ptr<scalar_t>(), order, order + count,
                       static_cast<int>(count), dimension, sums.mutable_data_ptr<float>()});
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
  return sums;
}

}  // namespace

TORCH_LIBRARY_IMPL(nsvq, CUDA, m) { m.impl("code_sums", code_sums); }

}  // namespace code_sums_cuda
}  // namespace nsvq
