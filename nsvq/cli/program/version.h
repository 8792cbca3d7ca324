#pragma once

#include <string>

namespace nsvq {

/// The text of `nsvq --version`: nsvq's version and commit, torch's version, CUDA's, and the vector
/// instructions of this processor that are used.
std::string version_text();

/// Commit of the source tree when it was configured; "unknown" outside of a git repository.
std::string commit();
/// Version of the toolkit that the CUDA kernels were built with; empty without them.
std::string cuda_version();
/// Vector instructions in use, by torch's names: "AVX2", "NEON", ...
std::string cpu_path();

}  // namespace nsvq
