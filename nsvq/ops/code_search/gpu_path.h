// Which kernels search on a GPU.
#pragma once

#include <cstdint>

namespace nsvq {

enum class GpuPath { automatic, hopper, blocked };

/// What the environment variable NSVQ_GPU_PATH asks for: `hopper`, `blocked`, or nothing. Throws
/// UserError for anything else.
GpuPath asked_gpu_path();

/// Whether the operator uses the kernels for Hopper on the current GPU, not blocked matrix
/// products. Says once in the log why it does not. Throws UserError if they are asked for and
/// cannot be used.
bool uses_hopper_kernels(const char* op, int64_t dimension);

}  // namespace nsvq
