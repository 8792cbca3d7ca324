// Marks of the codes that may be nearest to latents in crowds (crowds.h), from products of the
// first pass.
#pragma once

#include "nsvq/ops/code_search/crowds/crowds.h"
#include "nsvq/ops/code_search/hopper/search_epilogue.cuh"

namespace nsvq::sm90 {

/// One of the thread's latents. Its floor is above all scores if there is nothing to mark.
struct Marker {
  float floor = 1e38f;
  Slack slack{0, 0};
  uint32_t* marks = nullptr;  ///< its crowd's word for the first 32 codes

  /// Marks codes in the word `offset` words further on. Usually another latent of the crowd has
  /// marked them already.
  __device__ void add(int64_t offset, uint32_t bits) const {
    uint32_t* word = marks + offset;
    if (bits & ~__ldcg(word)) atomicOr(word, bits);
  }
};

template <int kPanels>
__device__ Marker marker_of(const Problem& problem, int64_t latent, float rate) {
  const Crowds& crowds = problem.crowds;
  if (latent >= problem.pass.count) return {};
  const int32_t centre = crowds.centre_of[latent];
  if (centre < 0 || crowds.places[centre] >= crowds.marked) return {};
  return {crowds.scores[latent], slack_of<kPanels>(problem.pass.rows[latent], rate),
          crowds.marks + crowds.places[centre]};
}

/// Marks codes of a part of a tile, the first of which is `first_code`, for the thread's two
/// latents, 8 rows apart. Each lane of a quad writes one word of marks (with 64 codes only the
/// first two lanes do).
template <int kCount>
__device__ void mark_part(float (&scores)[kCount], const Part& part, float twice_rate,
                          int64_t first_code, const Marker (&markers)[2], int marked) {
  constexpr int kWords = kCount / 16;
  float top[2];
  score(scores, part.bias, twice_rate, top);
  const float limits[2] = {markers[0].floor - markers[0].slack.of(part.header),
                           markers[1].floor - markers[1].slack.of(part.header)};
  if (!__any_sync(~0u, top[0] >= limits[0] || top[1] >= limits[1])) return;
  const int place = threadIdx.x % 4;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    uint32_t own = 0;
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      uint32_t bits = 0;  // two codes in each eight are the lane's
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        if (scores[16 * w + i / 2 * 4 + 2 * r + i % 2] >= limits[r]) {
          bits |= 1u << (i / 2 * 8 + i % 2);
        }
      }
      bits <<= 2 * place;
      bits |= __shfl_xor_sync(~0u, bits, 1);
      bits |= __shfl_xor_sync(~0u, bits, 2);
      if (place == w) own = bits;
    }
    if (own && markers[r].marks) markers[r].add((first_code / 32 + place) * marked, own);
  }
}

/// Whether any of a block's `count` latents is in a crowd.
__device__ inline bool has_crowd(const Problem& problem, int count) {
  const int64_t latent = int64_t{blockIdx.x} * count + threadIdx.x;
  return __syncthreads_or(static_cast<int>(threadIdx.x) < count && latent < problem.pass.count &&
                          problem.crowds.centre_of[latent] >= 0);
}

}  // namespace nsvq::sm90
