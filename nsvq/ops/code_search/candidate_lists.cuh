// What the four threads of a quad keep of a latent during the first pass: the list of its
// candidates, and sums over all other codes.
#pragma once

#include "nsvq/ops/code_search/tile_ring.cuh"

namespace nsvq::sm90 {

struct State {
  float floor = -1e38f, sum = 0, moment = 0;
  int count = 0;
  Slack slack;
};

/// Moves the sums of a latent to a higher floor.
__device__ inline void raise_floor(State& state, float floor) {
  const float drop = state.floor - floor, share = power_of_two(drop);
  state.moment = share > 0 ? share * fmaf(drop, state.sum, state.moment) : 0.0f;
  state.sum *= share;
  state.floor = floor;
}

/// Moves what cannot be the nearest any more from a quad's list to its sums.
template <int kPanels, bool kSums>
__device__ void prune(State& state, Candidate* list, const uint8_t* codes, float rate) {
  const int lane = threadIdx.x % 32, place = lane % 4;
  const uint32_t quad = 0xfu << (lane - place);
  int kept = 0;
  for (int first = 0; first < state.count; first += 4) {
    const bool there = first + place < state.count;
    const Candidate one = there ? list[first + place] : Candidate{0, kNothing};
    const float slack = slack_for<kPanels>(codes, one.code, state.slack, rate);
    const bool keep = there && one.score >= state.floor - slack;
    if (kSums && there && !keep) {
      const float x = one.score - state.floor, e = power_of_two(x);
      state.sum += e;
      state.moment = fmaf(e, x, state.moment);
    }
    const uint32_t votes = __ballot_sync(quad, keep) >> (lane - place);
    if (keep) list[kept + __popc(votes & ((1u << place) - 1))] = one;
    kept += __popc(votes & 0xfu);
    __syncwarp(quad);
  }
  state.count = kept;
}

struct Lists {
  const SearchPass* pass;
  int64_t row;  ///< of the thread's first latent
  int split;

  /// The list of the latent `offset` rows on, and its room: none for rows past the last.
  __device__ Candidate* of(int offset, int& room) const {
    room = row + offset < pass->count ? pass->capacity : 0;
    return pass->candidates + ((row + offset) * pass->splits + split) * pass->capacity;
  }
};

/// The place of a lane's candidates among those of its quad.
struct Share {
  int before, total;
};

__device__ inline Share share_of(int own, bool several) {
  const int lane = threadIdx.x % 32, place = lane % 4;
  if (!several) {
    const uint32_t quad = __ballot_sync(~0u, own > 0) >> (lane - place) & 0xfu;
    return {__popc(quad & ((1u << place) - 1)), __popc(quad)};
  }
  int up_to = own;
  int other = __shfl_up_sync(~0u, up_to, 1, 4);
  if (place >= 1) up_to += other;
  other = __shfl_up_sync(~0u, up_to, 2, 4);
  if (place >= 2) up_to += other;
  return {up_to - own, __shfl_sync(~0u, up_to, 3, 4)};
}

/// A tile of codes as the first pass reads it: biases and bounds.
struct Biases {
  const float* bias;
  const Header& header;
  float rate;

  /// Of the i-th code of a thread.
  __device__ float of(int i) const { return bias[threadIdx.x % 4 * 2 + i / 2 * 8 + i % 2]; }
};

/// The lane's candidates among a latent's scores, one bit each.
struct Hits {
  float floor;
  uint32_t bits;
  bool several;  ///< some lane of the warp has more than one
};

/// By the bound of the tile, which holds for each of its codes; by the bounds of the codes, which
/// take longer, where that leaves several.
template <int kFirst, int kCount>
__device__ Hits find_hits(const float (&scores)[kCount], float top, float tile_slack,
                          const Biases& biases, const State& state) {
  Hits hits{fmaxf(state.floor, quad_max(top) - tile_slack), 0, false};
  const float limit = fmaxf(hits.floor - tile_slack, kLeast);
#pragma unroll
  for (int i = 0; i < kCount / 2; ++i) {
    if (scores[kFirst + i / 2 * 4 + i % 2] >= limit) hits.bits |= 1u << i;
  }
  hits.several = __any_sync(~0u, __popc(hits.bits) > 1);
  if (!hits.several) return hits;
  const CodeSlack slack = state.slack.each(biases.header, biases.rate);
  float highest = kNothing;
#pragma unroll
  for (int i = 0; i < kCount / 2; ++i) {
    highest = fmaxf(highest, scores[kFirst + i / 2 * 4 + i % 2] - slack.of(biases.of(i)));
  }
  hits.floor = fmaxf(hits.floor, quad_max(highest));
#pragma unroll
  for (int i = 0; i < kCount / 2; ++i) {
    const float reach = scores[kFirst + i / 2 * 4 + i % 2] + slack.of(biases.of(i));
    if (reach < hits.floor) hits.bits &= ~(1u << i);
  }
  return hits;
}

/// Takes candidates out of a latent's scores: every second pair of `scores`, from kFirst on. `top`
/// is the lane's highest. As a rule no lane has two.
template <int kPanels, bool kSums, int kFirst, int kCount>
__device__ void collect_candidates(float (&scores)[kCount], float top, float tile_slack,
                                   const Biases& biases, int first_code, const Lists& lists,
                                   int offset, State& state) {
  const Hits hits = find_hits<kFirst>(scores, top, tile_slack, biases, state);
  if constexpr (kSums) raise_floor(state, hits.floor);
  state.floor = hits.floor;
  const Share share = share_of(__popc(hits.bits), hits.several);
  int room;
  Candidate* list = lists.of(offset, room);
  if (state.count <= room && state.count + share.total > room) {
    prune<kPanels, kSums>(state, list, lists.pass->codes, biases.rate);
  }
  int at = state.count + share.before;
  state.count += share.total;
  const int first = first_code + threadIdx.x % 4 * 2;
  if (!hits.several) {
    const int i = __ffs(hits.bits) - 1;
    if (i >= 0 && at < room) list[at] = {first + i / 2 * 8 + i % 2, top};
  } else {
#pragma unroll
    for (int i = 0; i < kCount / 2; ++i) {
      if ((hits.bits >> i & 1) == 0) continue;
      if (at < room) list[at] = {first + i / 2 * 8 + i % 2, scores[kFirst + i / 2 * 4 + i % 2]};
      ++at;
    }
  }
  if constexpr (kSums) {
#pragma unroll
    for (int i = 0; i < kCount / 2; ++i) {
      if (hits.bits >> i & 1) scores[kFirst + i / 2 * 4 + i % 2] = kNothing;
    }
  }
}

}  // namespace nsvq::sm90
