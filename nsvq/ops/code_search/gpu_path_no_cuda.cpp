#include "nsvq/ops/code_search/code_search.h"
#include "nsvq/ops/code_search/gpu_path.h"

namespace nsvq {

std::string fast_search_unavailable_reason(int64_t /*dimension*/, c10::Device device) {
  return device.is_cuda() ? "this program was built without CUDA" : "";
}

std::string describe_gpu_path(c10::Device /*device*/) {
  return "this program was built without CUDA";
}

}  // namespace nsvq
