#include "nsvq/core/device.h"

namespace nsvq {

void use_gpu(int /*index*/) {}

int gpu_count() { return 0; }

std::string why_no_gpu() { return "this nsvq was built without CUDA (NSVQ_CUDA)"; }

std::string gpu_name(c10::Device /*device*/) { return {}; }

int64_t gpu_peak_memory(c10::Device /*device*/) { return 0; }

int64_t gpu_peak_reserved_memory(c10::Device /*device*/) { return 0; }

}  // namespace nsvq
