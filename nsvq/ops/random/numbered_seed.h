// A seed for each of several numbers, by integers alone, for CPU and GPU.
#pragma once

#include <c10/macros/Macros.h>

#include <cstdint>

namespace nsvq {

/// SplitMix64's mixing of 64 bits; products wrap.
C10_HOST_DEVICE inline uint64_t mixed_bits(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

/// A hash of a seed and a number.
C10_HOST_DEVICE inline int64_t numbered_seed(int64_t seed, int64_t number) {
  constexpr uint64_t kGolden = 0x9e3779b97f4a7c15ULL;
  const uint64_t start = mixed_bits(static_cast<uint64_t>(seed) + kGolden);
  return static_cast<int64_t>(mixed_bits(start + (static_cast<uint64_t>(number) + 1) * kGolden));
}

}  // namespace nsvq
