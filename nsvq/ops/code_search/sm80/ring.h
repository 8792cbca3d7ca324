// How a block of threads divides its shared memory: shared by launches and by a test that needs no
// GPU.
#pragma once

#include <algorithm>
#include <cstdint>

#include "nsvq/ops/code_search/hopper/tile_sizes.h"

namespace nsvq::sm80 {

constexpr int kWarps = 8, kThreads = 32 * kWarps;  ///< more would leave each fewer registers
constexpr int kMostStages = 4;
constexpr int64_t kStaticBytes = 1024;  ///< shared memory that kernels declare themselves, at most
constexpr int64_t kLeastShared = 99 << 10;  ///< what compute capabilities 8.6, 8.9 and 12.0 have

/// Latents of a warp in the first pass: their left operands stay in registers, which do not suffice
/// for more.
C10_HOST_DEVICE constexpr int halves_for(int panels) { return panels <= 2 ? 2 : 1; }
C10_HOST_DEVICE constexpr int block_latents_for(int panels) {
  return kWarps * 16 * halves_for(panels);
}

/// Tiles in the ring, given the shared memory of a block and what of it is for other things. At
/// least two with kLeastShared.
inline int stages_for(int panels, int64_t shared_limit, int64_t others) {
  const int64_t most = (shared_limit - kStaticBytes - others) / tile_bytes(panels);
  return static_cast<int>(std::min<int64_t>(most, kMostStages));
}

}  // namespace nsvq::sm80
