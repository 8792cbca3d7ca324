#include "nsvq/cli/program/version.h"

#include <ATen/Version.h>
#include <fmt/format.h>
#include <torch/version.h>

#include "nsvq/cli/build_info.h"
#include "nsvq/core/version.h"

namespace nsvq {

std::string cpu_path() {
  const auto name = at::get_cpu_capability();
  if (name != "DEFAULT") return name;
#if defined(__aarch64__)
  return "NEON";
#else
  return "no vector instructions beyond the processor's least";
#endif
}

std::string commit() { return kCommit; }

std::string cuda_version() { return kCudaVersion; }

std::string version_text() {
  const auto cuda = cuda_version();
  return fmt::format("nsvq {} (commit {})\ntorch {}, {}\nCPU: {}", kVersion, commit(),
                     TORCH_VERSION, cuda.empty() ? "built without CUDA" : "CUDA " + cuda,
                     cpu_path());
}

}  // namespace nsvq
