// ATen's single headers: nvcc would parse torch/types.h for half a minute per architecture.
#include <ATen/core/Tensor.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/library.h>

#include <algorithm>

namespace nsvq {

namespace {

constexpr int kThreads = 256;

__global__ void count_codes(const int64_t* __restrict__ indices, int64_t n, int64_t codes,
                            unsigned long long* __restrict__ counts) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) {
    CUDA_KERNEL_ASSERT(indices[i] >= 0 && indices[i] < codes);
    // Sums of integers are the same in any order, so atomics stay deterministic.
    atomicAdd(counts + indices[i], 1ULL);
  }
}

at::Tensor code_usage_cuda(const at::Tensor& indices, int64_t codes) {
  TORCH_CHECK(indices.scalar_type() == at::kLong, "code_usage: indices must be int64");
  const c10::cuda::CUDAGuard guard(indices.device());
  auto counts = at::zeros({codes}, indices.options());
  const auto contiguous = indices.contiguous();
  const int64_t n = contiguous.numel();
  if (n == 0) return counts;
  const int64_t blocks = std::min<int64_t>((n + kThreads - 1) / kThreads, 4096);
  count_codes<<<blocks, kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
      contiguous.const_data_ptr<int64_t>(), n, codes,
      reinterpret_cast<unsigned long long*>(counts.mutable_data_ptr<int64_t>()));
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return counts;
}

}  // namespace

TORCH_LIBRARY_IMPL(nsvq, CUDA, m) { m.impl("code_usage", code_usage_cuda); }

}  // namespace nsvq
