#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>

#include "nsvq/core/device.h"

namespace nsvq {

void use_gpu(int index) { c10::cuda::set_device(static_cast<c10::DeviceIndex>(index)); }

int gpu_count() { return c10::cuda::device_count(); }

std::string why_no_gpu() { return "no NVIDIA GPU is visible"; }

std::string gpu_name(c10::Device device) {
  return at::cuda::getDeviceProperties(device.index())->name;
}

namespace {

constexpr auto kAllPools = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);

}  // namespace

int64_t gpu_peak_memory(c10::Device device) {
  const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(device.index());
  return stats.allocated_bytes[kAllPools].peak;
}

int64_t gpu_peak_reserved_memory(c10::Device device) {
  const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(device.index());
  return stats.reserved_bytes[kAllPools].peak;
}

}  // namespace nsvq
