#include "nsvq/ops/code_search/gpu_path.h"

#include <c10/util/StringUtil.h>

#include <cstdlib>
#include <string_view>

#include "nsvq/core/messages.h"

namespace nsvq {

GpuPath asked_gpu_path() {
  const char* asked = std::getenv("NSVQ_GPU_PATH");
  const std::string_view name = asked ? asked : "";
  if (name.empty()) return GpuPath::automatic;
  if (name == "hopper") return GpuPath::hopper;
  if (name == "sm80") return GpuPath::sm80;
  if (name == "sm86") return GpuPath::sm86;
  if (name == "blocked") return GpuPath::blocked;
  throw_user_error(
      c10::str("NSVQ_GPU_PATH is '", name, "'; use hopper, sm80, sm86 or blocked, or unset it"));
}

}  // namespace nsvq
