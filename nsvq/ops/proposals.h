// What rejection draws, on every device.
#pragma once

#include <ATen/core/PhiloxRNGEngine.h>

#include <cstdint>

namespace nsvq {

constexpr int kMostProposals = 1024;  ///< none of so many is kept with a chance of 1e-64, or of NaN

/// A latent for a code, and the number that its chance has to exceed to be kept.
struct Proposal {
  int64_t latent;
  float bar;  ///< in [0, 1)
};

/// The proposals for one code, in order.
class Proposals {
 public:
  C10_HOST_DEVICE Proposals(uint64_t seed, int64_t code, int64_t latents)
      : engine_(seed, static_cast<uint64_t>(code)), latents_(latents) {}

  C10_HOST_DEVICE Proposal next() {
    const uint64_t place = engine_();
    const auto latent = static_cast<int64_t>(place * static_cast<uint64_t>(latents_) >> 32);
    return {latent, static_cast<float>(engine_() >> 8) * 0x1p-24f};
  }

 private:
  at::philox_engine engine_;
  int64_t latents_;
};

}  // namespace nsvq
