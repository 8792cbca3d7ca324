#pragma once

#include <c10/core/Device.h>

#include <optional>
#include <string>
#include <vector>

namespace nsvq {

/// A device and, on a GPU, what NSVQ_GPU_PATH is set to.
struct Backend {
  std::string name;
  c10::DeviceType device;
  std::optional<std::string> path;
};

inline std::vector<Backend> all_backends() {
  return {{"CPU", c10::kCPU, std::nullopt},
          {"CUDA", c10::kCUDA, std::nullopt},
          {"CUDASm80", c10::kCUDA, "sm80"},
          {"CUDASm86", c10::kCUDA, "sm86"},
          {"CUDABlocked", c10::kCUDA, "blocked"}};
}

inline std::vector<Backend> backends_on(c10::Device device) {
  std::vector<Backend> some;
  for (const auto& backend : all_backends()) {
    if (backend.device == device.type()) some.push_back(backend);
  }
  return some;
}

}  // namespace nsvq
