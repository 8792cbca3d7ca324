#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
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

/// Prints a table of the first `most` of them; returns it.
nlohmann::ordered_json print_kernels(const std::string& title, const std::vector<KernelTime>& times,
                                     int64_t most);

/// Prints the GPU time of `step` by kind of kernel and of the longest kernels, as many as
/// `kernels`; returns it.
nlohmann::ordered_json show_kernels(const std::function<void()>& step, c10::Device device,
                                    int kernels);

}  // namespace nsvq
