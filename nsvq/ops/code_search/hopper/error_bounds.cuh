// Units and error bounds of tile_layout.h, for kernels.
#pragma once

#include "nsvq/ops/code_search/hopper/tile_layout.h"

namespace nsvq {

/// The unit for values in this range; tau <= 0: a search without the loss.
__device__ inline Unit unit_of(const ValueRange* range, double tau) {
  const bool finite = range->code < 0x7f800000u;
  const float largest =
      fmaxf(finite ? __uint_as_float(range->code) : 0.0f, __uint_as_float(range->latent));
  // Centred values are below 2 largest < 2^(exponent + 2), scaled ones below 2^15.
  const int exponent = largest > 0 ? ilogbf(largest) : 0;
  const float scale = scalbnf(1.0f, min(13 - exponent, 110));
  if (tau <= 0) return {scale, 1.0f, finite};
  // Beyond these limits the weights of codes as large as the largest are all equal, or one code has
  // all the weight.
  const double rate = 1.4426950408889634 / (tau * scale * scale);
  return {scale, static_cast<float>(fmin(fmax(rate, 0x1p-60), 0x1p60)), finite};
}

template <int kPanels>
constexpr float kKappa = (20.0f * 4 * kPanels + 4) * 0x1p-23f;

/// Whether norms in a tile differ so much that the tile's bound is far too wide for most of its
/// codes.
__device__ inline bool is_uneven(const Header& tile) { return tile.least < 0.25f * tile.norm; }

/// A score raises the floor of a closed list if it exceeds the floor by this many error bounds of
/// its tile. At 1 every code slightly nearer than those before it would raise it, and a crowd has
/// many; an uneven tile has 1 all the same, since its bound is far above that of most codes.
__device__ inline float wake_of(const Header& tile) { return is_uneven(tile) ? 1.0f : 1.5f; }

/// A tile's reach in error bounds. Codes that a closed list leaves to the sums have scores of at
/// most the floor + wake_of bounds, and are off by one bound more; a little is added for rounding.
__device__ inline float reach_of(const Header& tile) { return 1.01f * (1 + wake_of(tile)); }

/// The norms of a tile's codes, stored behind its header: two in a word.
__device__ inline const uint32_t* norms_of(const Header& header) {
  return reinterpret_cast<const uint32_t*>(&header + 1);
}
__device__ inline float low_norm(uint32_t pair) { return __uint_as_float(pair << 16); }
__device__ inline float high_norm(uint32_t pair) { return __uint_as_float(pair & 0xffff0000u); }
/// The high norm or at most 1 % more, which will do for bounds: the low norm stays in its last
/// bits.
__device__ inline float high_norm_or_more(uint32_t pair) { return __uint_as_float(pair); }

/// Codes of a tile whose scores a warp reads at once: their biases and norms, and their tile's
/// header.
struct Part {
  const float* bias;
  const uint32_t* norms;
  const Header& header;
};

/// The part of a tile from row `first` on.
template <int kPanels>
__device__ inline Part part_of(const uint8_t* tile, int first = 0) {
  const auto* bias = reinterpret_cast<const float*>(tile + body_bytes(kPanels));
  const Header& header = *reinterpret_cast<const Header*>(bias + tile_rows(kPanels));
  return {bias + first, norms_of(header) + first / 2, header};
}

/// The error bounds of a tile's codes for a latent, each by the code's own norm: where norms in a
/// tile differ much, the tile's bound is far too wide for most codes. fp16 is off by 2^-11 of a
/// value, or by 2^-25 below its normal range, so |b| <= 2^-11 |B| + 2^-21 (d <= 256); and |B|^2,
/// for gamma, is at most |B| times the largest norm of the tile.
struct CodeSlack {
  float slope, base, most;
  __device__ float of(float norm) const { return fminf(most, fmaf(slope, norm, base)); }
};

/// The slack where centring overflowed, which has no bound. Scores are below 2^100 (values are
/// scaled to 2^15, the rate is at most 2^60), so with it every code is a candidate, and a row
/// without a code (kNothing) is none.
constexpr float kMostSlack = 5e37f;

/// Coefficients of a latent's error bound, slightly enlarged for their own rounding.
struct Slack {
  float alpha, beta;
  __device__ float of(const CodeBounds& codes) const {
    return fminf(fmaf(alpha, codes.norm, fmaf(beta, codes.residual, codes.gamma)), kMostSlack);
  }
  __device__ CodeSlack each(const Header& codes, float rate) const {
    constexpr float kGamma = 24.5f * 0x1p-24f;
    const float most = of(codes);
    if (codes.residual > 1e9f) return {0, most, most};  // centring overflowed
    const float slope = fmaf(beta, 0x1.01p-11f, alpha) + kGamma * rate * codes.norm;
    return {1.0003f * slope, fmaf(alpha + beta, 0x1p-20f, 1.01e-30f * rate), most};
  }
};

/// The error bound of a code for a latent, from the tile that holds it.
template <int kPanels>
__device__ inline float slack_for(const uint8_t* codes, int32_t code, const Slack& slack,
                                  float rate) {
  constexpr int kRows = tile_rows(kPanels);
  const int64_t tile = code / kRows;
  const auto* bias =
      reinterpret_cast<const float*>(codes + tile * tile_bytes(kPanels) + body_bytes(kPanels));
  const auto& header = *reinterpret_cast<const Header*>(bias + kRows);
  const uint32_t pair = norms_of(header)[code % kRows / 2];
  return slack.each(header, rate).of(code % 2 == 0 ? low_norm(pair) : high_norm(pair));
}

template <int kPanels>
__device__ inline Slack slack_of(const Row& row, float rate) {
  return {2.002f * rate * (row.residual + kKappa<kPanels> * row.norm), 2.002f * rate * row.norm};
}

/// Largest reach with which sums stay finite, as a power of two: weights that closed lists leave to
/// the sums are relative to a floor that scores exceed by up to their tile's reach.
constexpr float kMostReach = 64;

}  // namespace nsvq
