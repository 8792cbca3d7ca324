// Units and error bounds of tile_layout.h, for kernels.
#pragma once

#include "nsvq/ops/code_search/tile_layout.h"

namespace nsvq {

/// tau <= 0: a search alone.
__device__ inline Unit unit_of(const ValueRange* range, double tau) {
  const bool finite = range->code < 0x7f800000u;
  const float largest =
      fmaxf(finite ? __uint_as_float(range->code) : 0.0f, __uint_as_float(range->latent));
  // Centred values are below 2 largest < 2^(exponent + 2), scaled ones below 2^15.
  const int exponent = largest > 0 ? ilogbf(largest) : 0;
  const float scale = scalbnf(1.0f, min(13 - exponent, 110));
  if (tau <= 0) return {scale, 1.0f, finite};
  // Beyond these limits weights are equal, or one has it all, whatever the rate.
  const double rate = 1.4426950408889634 / (tau * scale * scale);
  return {scale, static_cast<float>(fmin(fmax(rate, 0x1p-60), 0x1p60)), finite};
}

template <int kPanels>
constexpr float kKappa = (20.0f * 4 * kPanels + 4) * 0x1p-23f;

__device__ inline float rough_root(float x) {
  float root;
  asm("sqrt.approx.f32 %0, %1;" : "=f"(root) : "f"(x));  // off by 2^-23 of it
  return root;
}

/// The error bounds of a tile's codes for a latent, each by the code's own bias -rate |B|^2: where
/// norms in a tile are very different, the largest says little of the others. fp16 is off by 2^-11
/// of a value, or by 2^-25 below its normal range, so |b| <= 2^-11 |B| + 2^-21 (d <= 256).
struct CodeSlack {
  float slope, base, most;
  __device__ float of(float bias) const {
    constexpr float kGamma = 24.5f * 0x1p-24f;
    const float square = fmaxf(-bias, 0.0f);
    return fminf(most, fmaf(slope, rough_root(square), fmaf(kGamma, square, base)));
  }
};

/// Coefficients of a latent's error bound, slightly enlarged for their own rounding.
struct Slack {
  float alpha, beta;
  __device__ float of(const Header& codes) const {
    return fmaf(alpha, codes.norm, fmaf(beta, codes.residual, codes.gamma));
  }
  __device__ CodeSlack each(const Header& codes, float rate) const {
    const float most = of(codes);
    if (codes.residual > 1e9f) return {0, most, most};  // centring overflowed
    const float slope = 1.0003f * fmaf(beta, 0x1.01p-11f, alpha) * rsqrtf(rate);
    return {slope, fmaf(alpha + beta, 0x1p-20f, 1e-30f * rate), most};
  }
};

/// The error bound of a code for a latent, from the tile that holds it.
template <int kPanels>
__device__ inline float slack_for(const uint8_t* codes, int32_t code, const Slack& slack,
                                  float rate) {
  const int64_t tile = code / tile_rows(kPanels);
  const auto* bias =
      reinterpret_cast<const float*>(codes + tile * tile_bytes(kPanels) + body_bytes(kPanels));
  const auto& header = *reinterpret_cast<const Header*>(bias + tile_rows(kPanels));
  return slack.each(header, rate).of(bias[code % tile_rows(kPanels)]);
}

template <int kPanels>
__device__ inline Slack slack_of(const Row& row, float rate) {
  return {2.002f * rate * (row.residual + kKappa<kPanels> * row.norm), 2.002f * rate * row.norm};
}

}  // namespace nsvq
