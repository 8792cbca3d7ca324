// Random numbers by ATen's Philox engine, for CPU and GPU: each depends only on the seed, the
// number of the draw and its index in the tensor (`place`).
#pragma once

#include <ATen/core/PhiloxRNGEngine.h>

#include <cmath>
#include <cstdint>

namespace nsvq {

/// A uniform number in [0, 1), from 24 bits.
C10_HOST_DEVICE inline float uniform_of(uint32_t bits) {
  return static_cast<float>(bits >> 8) * 0x1p-24f;
}

/// The engine of an index: each index has a subsequence of 2^66 numbers, each of its draws four of
/// these.
C10_HOST_DEVICE inline at::philox_engine engine_for(uint64_t seed, int64_t draw, int64_t place) {
  return at::philox_engine(seed, static_cast<uint64_t>(place), static_cast<uint64_t>(draw));
}

C10_HOST_DEVICE inline float uniform_at(uint64_t seed, int64_t draw, int64_t place) {
  auto engine = engine_for(seed, draw, place);
  return uniform_of(engine());
}

/// A normal number, by Box and Muller.
C10_HOST_DEVICE inline float normal_at(uint64_t seed, int64_t draw, int64_t place) {
  auto engine = engine_for(seed, draw, place);
  constexpr float kTurn = 6.2831853f;
  const float length = sqrtf(-2 * logf(1 - uniform_of(engine())));
  return length * cosf(kTurn * uniform_of(engine()));
}

/// A Gumbel number -log(-log u), finite.
C10_HOST_DEVICE inline float gumbel_of(uint32_t bits) {
  const float u = (static_cast<float>(bits >> 9) + 0.5f) * 0x1p-23f;
#ifdef __CUDA_ARCH__
  return -__logf(-logf(u));  // the inner one has to be exact about 1, the outer one need not
#else
  return -logf(-logf(u));
#endif
}

struct Four {
  float at[4];
};

/// Gumbel numbers of the indices 4 four, ..., 4 four + 3, which share one call of the engine.
C10_HOST_DEVICE inline Four gumbels_at(uint64_t seed, int64_t four) {
  auto engine = engine_for(seed, 0, four);
  Four noise{};
  for (float& one : noise.at) one = gumbel_of(engine());
  return noise;
}

/// The chance that none of so many proposals is kept is 1e-64; none is if numbers are NaN.
constexpr int kMostProposals = 1024;

/// A latent proposed for a code, and the number that its chance has to exceed to be kept.
struct Proposal {
  int64_t latent;
  float bar;  ///< in [0, 1)
};

/// Latents proposed for one code by rejection, in order.
class Proposals {
 public:
  C10_HOST_DEVICE Proposals(uint64_t seed, int64_t code, int64_t latents)
      : engine_(engine_for(seed, 0, code)), latents_(latents) {}

  C10_HOST_DEVICE Proposal next() {
    const uint64_t place = engine_();
    const auto latent = static_cast<int64_t>(place * static_cast<uint64_t>(latents_) >> 32);
    return {latent, uniform_of(engine_())};
  }

 private:
  at::philox_engine engine_;
  int64_t latents_;
};

}  // namespace nsvq
