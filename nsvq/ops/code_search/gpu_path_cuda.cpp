#include <ATen/cuda/CUDAContext.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <mutex>
#include <set>
#include <string>

#include "nsvq/core/messages.h"
#include "nsvq/ops/code_search/code_search.h"
#include "nsvq/ops/code_search/gpu_path.h"
#include "nsvq/ops/code_search/hopper/tile_layout.h"

namespace nsvq {

namespace {

constexpr int64_t kLeastDimension = 8,
                  kMostDimension = 256;  // for which there are kernels over tiles

/// The kernels for a search, and why not faster ones.
struct Choice {
  GpuPath path;
  std::string reason;
};

std::string reason_against_dimension(int64_t dimension) {
  if (dimension < kLeastDimension) {
    return c10::str("d = ", dimension, " is below ", kLeastDimension);
  }
  if (dimension > kMostDimension) return c10::str("d = ", dimension, " is above ", kMostDimension);
  return {};
}

std::string reason_against_hopper(const cudaDeviceProp& gpu) {
  if (gpu.major != 9) return c10::str("the GPU is sm_", gpu.major, gpu.minor, ", not sm_90");
  static const bool compiled = has_matrix_kernels();
  return compiled ? "" : "its kernels were not compiled for sm_90a";
}

std::string reason_against_sm80(const cudaDeviceProp& gpu) {
  return gpu.major >= 8 ? "" : c10::str("the GPU is sm_", gpu.major, gpu.minor, ", below sm_80");
}

Choice choose(const cudaDeviceProp& gpu, int64_t dimension) {
  const auto asked = asked_gpu_path();
  if (asked == GpuPath::blocked) return {GpuPath::blocked, "NSVQ_GPU_PATH asks for it"};
  auto reason = reason_against_dimension(dimension);
  if (!reason.empty()) return {GpuPath::blocked, reason};
  if (asked == GpuPath::sm80 || asked == GpuPath::sm86) {
    reason = reason_against_sm80(gpu);
    if (reason.empty()) return {GpuPath::sm80, "NSVQ_GPU_PATH asks for it"};
    return {GpuPath::blocked, reason};
  }
  reason = reason_against_hopper(gpu);
  if (reason.empty()) return {GpuPath::hopper, {}};
  auto lesser = reason_against_sm80(gpu);
  if (lesser.empty()) return {GpuPath::sm80, reason};
  return {GpuPath::blocked, lesser};
}

/// Logs each reason once.
void say_declined(const char* op, const std::string& reason) {
  static std::mutex mutex;
  static std::set<std::string> said;
  const std::lock_guard lock(mutex);
  if (!said.insert(reason).second) return;
  log_line(c10::str(op, ": takes blocked matrix products, not kernels over tiles: ", reason));
}

const cudaDeviceProp& properties_of(c10::Device device) {
  return *at::cuda::getDeviceProperties(device.has_index() ? device.index() : -1);
}

}  // namespace

std::string fast_search_unavailable_reason(int64_t dimension, c10::Device device) {
  if (!device.is_cuda()) return {};  // a CPU has kernels for every dimension
  const auto choice = choose(properties_of(device), dimension);
  return choice.path == GpuPath::blocked ? choice.reason : "";
}

GpuPath choose_gpu_path(const char* op, int64_t dimension) {
  const auto choice = choose(properties_of(at::kCUDA), dimension);
  if (choice.path != GpuPath::hopper && asked_gpu_path() == GpuPath::hopper) {
    throw_user_error(c10::str("NSVQ_GPU_PATH=hopper: ", op,
                              " cannot use the kernels for Hopper: ", choice.reason));
  }
  if (choice.path == GpuPath::blocked) say_declined(op, choice.reason);
  return choice.path;
}

int64_t search_shared_limit() {
  const auto limit = static_cast<int64_t>(properties_of(at::kCUDA).sharedMemPerBlockOptin);
  const auto asked = asked_gpu_path();
  if (asked == GpuPath::sm80) return std::min<int64_t>(limit, 163 << 10);
  if (asked == GpuPath::sm86) return std::min<int64_t>(limit, 99 << 10);
  return limit;
}

std::string describe_gpu_path(c10::Device device) {
  const auto& gpu = properties_of(device);
  const auto choice = choose(gpu, kMostDimension);
  if (choice.path == GpuPath::blocked) {
    return c10::str("codes are searched by blocked products: ", choice.reason);
  }
  const auto range = c10::str("for d from ", kLeastDimension, " to ", kMostDimension,
                              ", else by blocked products");
  if (choice.path == GpuPath::hopper) return c10::str("codes are searched by wgmma ", range);
  const char* measured = gpu.major == 9 ? "" : "; compiled for this GPU, run on sm_90 alone";
  return c10::str("codes are searched by mma.sync ", range, ": ", choice.reason, measured);
}

}  // namespace nsvq
