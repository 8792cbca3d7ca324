#include <c10/cuda/CUDAException.h>

#include "nsvq/ops/code_search/hopper/tile_layout.h"

namespace nsvq {

namespace {

constexpr int kThreads = 256;

__global__ void add_parts_kernel(const float* parts, int splits, int64_t count, float* grads) {
  const int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x;
  if (i >= count) return;
  float sum = 0;
  for (int split = 0; split < splits; ++split) sum += parts[split * count + i];
  grads[i] = sum;
}

}  // namespace

void add_parts(const float* parts, int splits, int64_t count, float* grads, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>((count + kThreads - 1) / kThreads);
  add_parts_kernel<<<blocks, kThreads, 0, stream>>>(parts, splits, count, grads);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

}  // namespace nsvq
