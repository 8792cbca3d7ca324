// Launches of kernels with a ring of tiles.
#pragma once

#include <c10/cuda/CUDAException.h>

#include "nsvq/ops/code_search/sm80/ring.h"

namespace nsvq::sm80 {

/// Launches a kernel that takes `argument` and the number of stages of its ring, which lies in
/// shared memory before `others` bytes.
template <typename Kernel, typename Argument>
void launch_with_ring(Kernel kernel, const Argument& argument, dim3 grid, int panels,
                      int64_t shared_limit, int others, cudaStream_t stream) {
  const int stages = stages_for(panels, shared_limit, others);
  const int bytes = stages * tile_bytes(panels) + others;
  C10_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  kernel<<<grid, kThreads, bytes, stream>>>(argument, stages);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

}  // namespace nsvq::sm80
