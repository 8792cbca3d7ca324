#pragma once

#include <cstdint>
#include <initializer_list>

namespace nsvq {

/// A seed made of several numbers, such as (run seed, epoch, position): equal parts, equal seed.
uint64_t combine_seeds(std::initializer_list<uint64_t> parts);

/// A small generator (SplitMix64) whose draws are the same on every machine and compiler, unlike
/// the standard library's distributions.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t next();
  /// In [0, 1).
  double uniform();
  double uniform(double low, double high);
  /// In [0, bound), without bias; bound must be positive.
  int64_t below(int64_t bound);
  double normal();

 private:
  uint64_t state_;
};

}  // namespace nsvq
