#pragma once

#include <cstdint>

#include "nsvq/core/random.h"

namespace nsvq {

/// Purposes of random numbers. Each is combined with the run's seed, so that they are independent.
enum class Draw : uint64_t {
  weights = 1,
  batches = 2,
  codebook = 3,
  replacement = 4,
  discriminator = 5,
  quantizer = 6
};

/// The seed for one purpose; `number` is the epoch or step, for purposes that draw in each.
inline uint64_t seed_for(int64_t run_seed, Draw draw, int64_t number = 0) {
  return combine_seeds({static_cast<uint64_t>(run_seed), static_cast<uint64_t>(draw),
                        static_cast<uint64_t>(number)});
}

}  // namespace nsvq
