#pragma once

#include <torch/types.h>
#include <torch/utils.h>

#include <cstdint>
#include <initializer_list>
#include <mutex>
#include <vector>

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

/// A seed [numbers] int64 for each of several images, by its number. Different `purpose`s are
/// independent of each other and of Draw's.
torch::Tensor image_seeds(int64_t seed, uint64_t purpose, const std::vector<int64_t>& numbers);

/// Seeds torch's own generator for the draws of a scope, such as the first weights of a module. The
/// generator is the process's, so other threads wait until the scope ends.
class SeedGuard {
 public:
  explicit SeedGuard(uint64_t seed) : SeedGuard() { torch::manual_seed(seed); }
  /// Without a seed, where the values drawn do not matter: keeps them out of other threads' draws.
  SeedGuard() : lock_(mutex()) {}

 private:
  static std::mutex& mutex() {
    static std::mutex one;
    return one;
  }

  std::lock_guard<std::mutex> lock_;
};

}  // namespace nsvq
