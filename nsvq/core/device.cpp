#include "nsvq/core/device.h"

#include <ATen/Parallel.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <regex>
#include <thread>

#include "nsvq/core/error.h"

namespace nsvq {

c10::Device choose_device(const std::string& name) {
  if (name == "cpu") return c10::Device(c10::kCPU);
  if (gpu_count() > 0) return c10::Device(c10::kCUDA, 0);
  if (name == "cuda")
    throw UserError("CUDA is not available: {}; use device=cpu (in other commands --device cpu)",
                    why_no_gpu());
  return c10::Device(c10::kCPU);
}

std::string describe(c10::Device device) {
  if (!device.is_cpu()) return gpu_name(device);
  const int threads = at::get_num_threads();
  return fmt::format("cpu, {} thread{}", threads, threads == 1 ? "" : "s");
}

double peak_memory(c10::Device device) {
  constexpr double gib = 1024. * 1024 * 1024;
  if (device.is_cuda()) return static_cast<double>(gpu_peak_memory(device)) / gib;
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024 / gib;  // ru_maxrss is in KiB
}

void wait_for(c10::Device device) {
  if (device.is_cpu()) return;
  c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
}

int usable_cores() {
  const auto cores = std::max(static_cast<int>(std::thread::hardware_concurrency()), 1);
  std::ifstream limit("/sys/fs/cgroup/cpu.max");  // "QUOTA PERIOD" in microseconds, or "max PERIOD"
  double quota = 0, period = 0;
  if (!(limit >> quota >> period) || period <= 0) return cores;
  return std::clamp(static_cast<int>(quota / period), 1, cores);
}

std::string describe_out_of_memory(const std::string& error) {
  const auto found = [&](const char* pattern) {
    std::smatch match;
    return std::regex_search(error, match, std::regex(pattern)) ? match[1].str() : "";
  };
  const auto asked = found("Tried to allocate ([0-9.]+ [KMGT]?i?B)");
  const auto total = found("total capacity of ([0-9.]+ [KMGT]?i?B)");
  const auto free = found("of which ([0-9.]+ [KMGT]?i?B) is free");
  std::string text = "out of memory on the GPU";
  if (!asked.empty()) text += fmt::format(": {} asked for", asked);
  if (!free.empty()) text += fmt::format(", {} free of {}", free, total);
  return text +
         "; lower train.batch_size (in other commands --batch-size), set train.recompute=true, or "
         "lower data.size or model.width";
}

}  // namespace nsvq
