#include "nsvq/core/random.h"

#include <cmath>
#include <numbers>

namespace nsvq {

namespace {

uint64_t scramble(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

}  // namespace

uint64_t combine_seeds(std::initializer_list<uint64_t> parts) {
  uint64_t seed = 0x9e3779b97f4a7c15ULL;
  for (const uint64_t part : parts) seed = scramble(seed ^ scramble(part + 0x9e3779b97f4a7c15ULL));
  return seed;
}

uint64_t Random::next() { return scramble(state_ += 0x9e3779b97f4a7c15ULL); }

double Random::uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

double Random::uniform(double low, double high) { return low + (high - low) * uniform(); }

int64_t Random::below(int64_t bound) {
  const auto range = static_cast<uint64_t>(bound);
  // Rejection sampling: values in the incomplete last multiple of `range` would favour small
  // results.
  const uint64_t excess = (UINT64_MAX % range + 1) % range;
  uint64_t draw = next();
  while (draw > UINT64_MAX - excess) draw = next();
  return static_cast<int64_t>(draw % range);
}

double Random::normal() {
  const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
  return radius * std::cos(2.0 * std::numbers::pi * uniform());
}

torch::Tensor image_seeds(int64_t seed, uint64_t purpose, const std::vector<int64_t>& numbers) {
  std::vector<int64_t> seeds;
  for (const int64_t number : numbers) {
    seeds.push_back(static_cast<int64_t>(
        combine_seeds({static_cast<uint64_t>(seed), purpose, static_cast<uint64_t>(number)})));
  }
  return at::tensor(seeds, at::kLong);
}

}  // namespace nsvq
