#pragma once

#include <torch/utils.h>

#include <cstdint>
#include <mutex>

namespace nsvq {

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
