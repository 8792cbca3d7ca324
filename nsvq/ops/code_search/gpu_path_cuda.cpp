#include <ATen/cuda/CUDAContext.h>
#include <c10/util/StringUtil.h>

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
                  kMostDimension = 256;  // for which there are kernels for Hopper

/// Logs each reason once.
void say_declined(const char* op, const std::string& reason) {
  static std::mutex mutex;
  static std::set<std::string> said;
  const std::lock_guard lock(mutex);
  if (!said.insert(reason).second) return;
  log_line(c10::str(op, ": takes blocked matrix products, not the kernels for Hopper: ", reason));
}

}  // namespace

std::string fast_search_unavailable_reason(int64_t dimension, c10::Device device) {
  if (!device.is_cuda()) return {};  // a CPU has kernels for every dimension
  if (asked_gpu_path() == GpuPath::blocked) return "NSVQ_GPU_PATH asks for it";
  const auto* gpu = at::cuda::getDeviceProperties(device.has_index() ? device.index() : -1);
  if (gpu->major != 9) return c10::str("the GPU is sm_", gpu->major, gpu->minor, ", not sm_90");
  static const bool compiled = has_matrix_kernels();
  if (!compiled) return "they were not compiled for sm_90a";
  if (dimension < kLeastDimension) {
    return c10::str("d = ", dimension, " is below ", kLeastDimension);
  }
  if (dimension > kMostDimension) return c10::str("d = ", dimension, " is above ", kMostDimension);
  return {};
}

bool uses_hopper_kernels(const char* op, int64_t dimension) {
  const auto reason = fast_search_unavailable_reason(dimension, at::kCUDA);
  if (reason.empty()) return true;
  if (asked_gpu_path() == GpuPath::hopper) {
    throw_user_error(
        c10::str("NSVQ_GPU_PATH=hopper: ", op, " cannot use the kernels for Hopper: ", reason));
  }
  say_declined(op, reason);
  return false;
}

}  // namespace nsvq
