#include <ATen/cuda/CUDAContext.h>
#include <c10/util/StringUtil.h>

#include "nsvq/ops/code_search/code_search.h"
#include "nsvq/ops/code_search/tile_layout.h"

namespace nsvq {

namespace {

/// Dimensions that tiles are made for.
constexpr int64_t kLeastPacked = 8, kMostPacked = 256;

}  // namespace

std::string fast_search_unavailable_reason(int64_t dimension, c10::Device device) {
  if (!device.is_cuda()) return {};  // a CPU has kernels for every dimension
  if (dimension < kLeastPacked) {
    return c10::str("d = ", dimension, " is below ", kLeastPacked, ": differences are as fast");
  }
  if (dimension > kMostPacked) return c10::str("d = ", dimension, " is above ", kMostPacked);
  const auto* gpu = at::cuda::getDeviceProperties(device.has_index() ? device.index() : -1);
  if (gpu->major != 9) return c10::str("the GPU is sm_", gpu->major, gpu->minor, ", not sm_90");
  static const bool compiled = has_matrix_kernels();
  return compiled ? "" : "the kernels were not compiled for sm_90a";
}

}  // namespace nsvq
