// Which kernels search on a GPU.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <string>

namespace nsvq {

enum class GpuPath {
  automatic,
  hopper,   ///< wgmma and bulk copies, sm_90a
  sm80,     ///< mma.sync and cp.async, compute capability 8.0 and up
  sm86,     ///< sm80 with the shared memory of 8.6, on any GPU: only where it is asked for
  blocked,  ///< blocked matrix products, any GPU
};

/// What the environment variable NSVQ_GPU_PATH asks for: `hopper`, `sm80`, `sm86`, `blocked`, or
/// nothing. Throws UserError for anything else.
GpuPath asked_gpu_path();

/// The kernels that the operator uses on the current GPU: hopper, sm80 or blocked. Says once in the
/// log why blocked products are used. With sm80 or sm86 asked for it chooses as on such a GPU.
/// Throws UserError if those for Hopper are asked for and cannot be used.
GpuPath choose_gpu_path(const char* op, int64_t dimension);

/// The bytes of shared memory that a block may have on the current GPU. With sm80 or sm86 asked for
/// no more than a GPU of this compute capability has.
int64_t search_shared_limit();

/// One line about the kernels that search on a GPU, and why not faster ones.
std::string describe_gpu_path(c10::Device device);

}  // namespace nsvq
