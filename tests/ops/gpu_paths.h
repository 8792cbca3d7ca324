#pragma once

#include <c10/core/Device.h>

#include <optional>
#include <string>
#include <vector>

namespace nsvq {

/// A device and, on a GPU, what NSVQ_GPU_PATH asks for.
struct Place {
  std::string name;
  c10::DeviceType device;
  std::optional<std::string> path;
};

inline std::vector<Place> all_places() {
  return {{"CPU", c10::kCPU, std::nullopt},
          {"CUDA", c10::kCUDA, std::nullopt},
          {"CUDABlocked", c10::kCUDA, "blocked"}};
}

inline std::vector<Place> places_on(c10::Device device) {
  std::vector<Place> some;
  for (const auto& place : all_places()) {
    if (place.device == device.type()) some.push_back(place);
  }
  return some;
}

}  // namespace nsvq
