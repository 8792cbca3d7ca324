// Search and NS loss by differences, for the latents that the fast first pass (tile_layout.h)
// leaves over.
#pragma once

#include "nsvq/ops/code_search/tile_layout.h"

namespace nsvq {

/// A code and its distance.
struct Nearest {
  double distance;
  int64_t code;  ///< -1: none
};

struct Sums {
  double weights, losses;
};

/// The latents that `rows` names ([0] is their number, known to the GPU alone) against all codes.
struct Scan {
  Matrix latents, codes;
  int64_t dimension;
  const int32_t* rows;
};

/// Exact indices and distances, -1 and NaN for a latent that is not finite or for all if a code is
/// not; losses and denominators where there is room for them.
void scan_rest(const Scan& scan, double tau, const ValueRange* range, Results results,
               cudaStream_t stream);

}  // namespace nsvq
