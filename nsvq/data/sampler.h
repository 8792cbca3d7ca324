#pragma once

#include <cstdint>
#include <vector>

namespace nsvq {

/// 0 to size - 1 in an order that depends only on (seed, epoch).
std::vector<int64_t> permutation(int64_t size, uint64_t seed, int64_t epoch);

/// Which images make up a batch. Of the epoch's order, rank r of w takes positions r, r + w, r +
/// 2w, ...; its slots are numbered 0, 1, 2, ...
struct Sampler {
  int64_t images = 0;  ///< in the source
  int64_t batch_size = 1;
  bool shuffle = true;
  uint64_t seed = 0;
  int rank = 0;
  int world = 1;

  /// Slots of this rank. Shuffled, every rank has the same number and the remainder is left out.
  int64_t slots() const;
  /// Shuffled, full batches only; in order, the last one may be short.
  int64_t batches() const;
  int64_t batch_slots(int64_t batch) const;
  int64_t position(int64_t slot) const { return rank + slot * world; }
  /// The image at each position of the epoch.
  std::vector<int64_t> order(int64_t epoch) const;
};

}  // namespace nsvq
