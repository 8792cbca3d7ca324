#include "nsvq/core/device.h"

#include <ATen/Parallel.h>

#include "nsvq/core/error.h"

namespace nsvq {

c10::Device choose_device(const std::string& name) {
  if (name == "cpu") return c10::Device(c10::kCPU);
  if (gpu_count() > 0) return c10::Device(c10::kCUDA, 0);
  if (name == "cuda")
    throw UserError("device: cuda is not to be had: {}; use device=cpu", why_no_gpu());
  return c10::Device(c10::kCPU);
}

std::string describe(c10::Device device) {
  if (device.is_cpu()) return fmt::format("cpu, {} threads", at::get_num_threads());
  return gpu_name(device);
}

}  // namespace nsvq
