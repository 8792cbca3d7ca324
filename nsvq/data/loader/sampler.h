#pragma once

#include <cstdint>
#include <vector>

namespace nsvq {

/// A permutation of 0 .. size - 1 that depends only on (seed, epoch).
std::vector<int64_t> permutation(int64_t size, uint64_t seed, int64_t epoch);

/// Assigns positions of an epoch's order to slots 0, 1, 2, ... of each rank. With shuffling the
/// batches of ranks 0, 1, ... follow each other in the order, so that the batches of a step
/// together are the batch that one process would have. Without, rank r of w has positions r, r + w,
/// r + 2w, ...
struct Sampler {
  int64_t images = 0;  ///< in the source
  int64_t batch_size = 1;
  bool shuffle = true;
  uint64_t seed = 0;
  int rank = 0;
  int world = 1;

  /// Slots of this rank. With shuffling all ranks have equally many, and the remainder is dropped.
  int64_t slots() const;
  /// Batches per epoch. With shuffling only full ones; without, the last one may be short.
  int64_t batches() const;
  int64_t batch_slots(int64_t batch) const;
  int64_t position(int64_t slot) const;
  /// The index of the image at each position of the epoch.
  std::vector<int64_t> order(int64_t epoch) const;
};

}  // namespace nsvq
