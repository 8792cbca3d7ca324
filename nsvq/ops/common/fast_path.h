#pragma once

#include <string>

namespace nsvq {

/// Whether the fast kernel of `op` applies: `reason` is empty. If not, `reason` says why a slower
/// one is used, which is logged once with NSVQ_DEBUG in the environment.
bool takes_fast_path(const char* op, const std::string& reason);

}  // namespace nsvq
