#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace nsvq {

/// A kernel of a GPU, or a family of them, and what it took in a call of some work.
struct KernelTime {
  std::string name;
  double milliseconds = 0;
  double launches = 0;
};

/// What the kernels of `work` on a GPU take, the longest first; means over `calls` of it.
std::vector<KernelTime> profile_kernels(const std::function<void()>& work, c10::Device device,
                                        int calls);

/// The same by what kernels do ("convolutions", "norms", ...), told by their names.
std::vector<KernelTime> by_family(const std::vector<KernelTime>& kernels);

}  // namespace nsvq
