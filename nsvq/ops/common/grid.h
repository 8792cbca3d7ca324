// How work is divided among blocks and threads.
#pragma once

#include <cstdint>

namespace nsvq {

/// a / b, rounded up.
inline int64_t divided(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace nsvq
