#pragma once

#include <cstdint>
#include <initializer_list>

namespace nsvq {

/// Hashes several numbers, such as (run seed, epoch, position), to one seed.
uint64_t combine_seeds(std::initializer_list<uint64_t> parts);

/// SplitMix64. Unlike the standard library's distributions it gives equal numbers on every machine
/// and compiler.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t next();
  /// Uniform in [0, 1).
  double uniform();
  double uniform(double low, double high);
  /// Uniform in [0, bound), without modulo bias; bound must be positive.
  int64_t below(int64_t bound);
  double normal();

 private:
  uint64_t state_;
};

}  // namespace nsvq
