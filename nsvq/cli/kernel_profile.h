#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace nsvq {

/// GPU time and launches of a kernel, or of a family of kernels, per call of the profiled work.
struct KernelTime {
  std::string name;
  double milliseconds = 0;
  double launches = 0;
};

/// Profiles `calls` calls of `work` on a GPU; kernels by decreasing time, means per call.
std::vector<KernelTime> profile_kernels(const std::function<void()>& work, c10::Device device,
                                        int calls);

/// Sums kernels by family ("convolutions", "batch norm", ...), recognised by their names.
std::vector<KernelTime> by_family(const std::vector<KernelTime>& kernels);

}  // namespace nsvq
