#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAFunctions.h>

#include "nsvq/core/device.h"

namespace nsvq {

int gpu_count() { return c10::cuda::device_count(); }

std::string why_no_gpu() { return "this machine shows no NVIDIA GPU"; }

std::string gpu_name(c10::Device device) {
  return at::cuda::getDeviceProperties(device.index())->name;
}

}  // namespace nsvq
