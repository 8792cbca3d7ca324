// Sums of latents by code: the rows are sorted by code, then a block per code adds its rows, each
// warp a fixed part of them and the warps' sums in order. No atomics, so that runs repeat.

#include <ATen/Dispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/library.h>

namespace nsvq {

void check_code_sums(const at::Tensor& latents, const at::Tensor& indices);

namespace {

constexpr int kWarp = 32;
constexpr int kWarps = 8;
constexpr int kColumns = 4 * kWarp;  // of a pass over the rows

template <typename T>
__global__ void __launch_bounds__(kWarp* kWarps)
    add_rows(const T* __restrict__ latents, const int64_t* __restrict__ order,
             const int64_t* __restrict__ first, int64_t rows, int64_t codes, int64_t dimension,
             float* __restrict__ sums) {
  __shared__ float parts[kWarps][kColumns];
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int64_t code = blockIdx.x;
  // Whatever lies outside all codes would be left out in silence.
  if (code == 0) CUDA_KERNEL_ASSERT(first[0] == 0 && first[codes] == rows);
  const int64_t begin = first[code], end = first[code + 1];
  if (begin == end) return;  // the sums are zero already
  for (int64_t column = 0; column < dimension; column += kColumns) {
    float sum[4] = {};
    for (int64_t i = begin + warp; i < end; i += kWarps) {
      const T* row = latents + order[i] * dimension + column;
#pragma unroll
      for (int part = 0; part < 4; ++part) {
        const int j = lane + part * kWarp;
        if (column + j < dimension) sum[part] += static_cast<float>(row[j]);
      }
    }
#pragma unroll
    for (int part = 0; part < 4; ++part) parts[warp][lane + part * kWarp] = sum[part];
    __syncthreads();
    for (int j = threadIdx.x; j < kColumns && column + j < dimension; j += blockDim.x) {
      float total = 0;
      for (int part = 0; part < kWarps; ++part) total += parts[part][j];
      sums[code * dimension + column + j] = total;
    }
    __syncthreads();
  }
}

at::Tensor code_sums_cuda(const at::Tensor& latents, const at::Tensor& indices, int64_t codes) {
  check_code_sums(latents, indices);
  const c10::cuda::CUDAGuard guard(latents.device());
  const auto rows = latents.contiguous();
  const int64_t dimension = rows.size(1);
  auto sums = at::zeros({codes, dimension}, rows.options().dtype(at::kFloat));
  if (rows.size(0) == 0 || codes == 0 || dimension == 0) return sums;
  const auto [sorted, order] =
      at::sort(indices.contiguous(), std::optional<bool>(/*stable=*/true), /*dim=*/0);
  const auto first = at::searchsorted(sorted, at::arange(codes + 1, indices.options()));
  AT_DISPATCH_FLOATING_TYPES_AND2(
      at::kHalf, at::kBFloat16, rows.scalar_type(), "code_sums", [&, &order = order] {
        add_rows<<<codes, kWarp * kWarps, 0, at::cuda::getCurrentCUDAStream()>>>(
            rows.const_data_ptr<scalar_t>(), order.const_data_ptr<int64_t>(),
            first.const_data_ptr<int64_t>(), rows.size(0), codes, dimension,
            sums.mutable_data_ptr<float>());
        C10_CUDA_KERNEL_LAUNCH_CHECK();
      });
  return sums;
}

}  // namespace

TORCH_LIBRARY_IMPL(nsvq, CUDA, m) { m.impl("code_sums", code_sums_cuda); }

}  // namespace nsvq
