#pragma once

#include <cstdint>

#include "nsvq/io/image.h"

namespace nsvq {

/// A procedural picture with the statistics of photographs: 20 to 70 ellipses and boxes of
/// power-law size that cover each other, shaded and with 1/f texture. A pure function of its
/// arguments: no libm beyond sqrt, so images agree between machines up to a compiler's contraction
/// of a*b+c (one grey level here and there; none with -ffp-contract=off).
Image dead_leaves(uint64_t seed, int64_t index, int size);

}  // namespace nsvq
