#pragma once

#include <cstdint>

namespace nsvq {

/// Threads for computing that can be asked for; more is a slip, and cannot be started.
inline constexpr int64_t kMostThreads = 1024;

}  // namespace nsvq
