#pragma once

#include <string>

namespace nsvq {

/// True if `reason` is empty. Otherwise it says why the fast kernel of `op` does not apply, so that
/// a slower one is taken: with NSVQ_DEBUG in the environment each such reason is logged once.
bool takes_fast_path(const char* op, const std::string& reason);

}  // namespace nsvq
