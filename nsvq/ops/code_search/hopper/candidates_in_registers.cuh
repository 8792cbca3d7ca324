// Candidates of the first pass that are found in a thread's registers: the usual case, in which no
// thread has more than a few.
#pragma once

#include "nsvq/ops/code_search/hopper/candidate_lists.cuh"

namespace nsvq::sm90 {

/// A lane's candidates for a latent in one tile: the latent's floor with the tile, a bit for each
/// of the lane's codes that is a candidate, and whether these may be several or differ from the
/// code of its highest score.
struct Few {
  static constexpr int kMost = 4;
  float risen;
  uint32_t bits;
  bool several;

  __device__ bool too_many() const { return __any_sync(~0u, __popc(bits) > kMost); }
};

/// Calls visit(i, place, both norms) for the codes i and i + 1 of a lane, two at a time. Their
/// scores are scores[place + kFirst] and the next, where kFirst tells which of the thread's latents
/// it is.
template <int kCount, typename Visit>
__device__ void each_pair(const Part& part, Visit visit) {
#pragma unroll
  for (int i = 0; i < kCount / 2; i += 2) {
    const uint32_t pair = part.norms[threadIdx.x % 4 + 2 * i];
    visit(i, 2 * i, low_norm(pair), high_norm_or_more(pair));
  }
}

/// The highest of `scores` + slope times the code's norm.
template <int kFirst, int kCount>
__device__ float highest_with(const float (&scores)[kCount], const Part& part, float slope) {
  float highest = kNothing;
  each_pair<kCount>(part, [&](int, int place, float low, float high) {
    highest = fmaxf(highest, fmaxf(fmaf(slope, low, scores[place + kFirst]),
                                   fmaf(slope, high, scores[place + kFirst + 1])));
  });
  return highest;
}

/// Re-tests candidates with each code's own error bound.
template <int kFirst, int kCount>
__device__ void judge_each(const float (&scores)[kCount], const Part& part, float rate,
                           const State& state, Few& few) {
  const CodeSlack own = state.slack.each(part.header, rate);
  const float sure = quad_max(highest_with<kFirst>(scores, part, -own.slope)) - own.base;
  if (!state.closed()) few.risen = fmaxf(few.risen, sure);
  const float limit = few.risen - own.base;
  uint32_t bits = 0;
  each_pair<kCount>(part, [&](int i, int place, float low, float high) {
    if (fmaf(own.slope, low, scores[place + kFirst]) >= limit) bits |= 1u << i;
    if (fmaf(own.slope, high, scores[place + kFirst + 1]) >= limit) bits |= 2u << i;
  });
  few.bits &= bits;
  few.several = true;
}

/// Appends candidates to the latent's list; with kSums it clears their scores, so that these are
/// not summed.
template <bool kSums, int kFirst, int kCount>
__device__ void write_few(float (&scores)[kCount], float top, Few few, int first_code,
                          const Lists& lists, int offset, State& state) {
  const int lane = threadIdx.x % 32, place = lane % 4;
  const SearchPass& pass = *lists.pass;
  const int latent = lists.row + offset, room = lists.room_of(latent);
  Candidate* list = pass.candidates + (int64_t{latent} * pass.splits + lists.split) * pass.capacity;
  int count = state.places;
  uint32_t written = 0;
#pragma unroll 1
  do {
    const uint32_t quad = __ballot_sync(~0u, few.bits > 0) >> (lane - place) & 0xfu;
    const int at = count + __popc(quad & ((1u << place) - 1)), i = __ffs(few.bits) - 1;
    float score = top;
    if (few.several) {
#pragma unroll
      for (int k = 0; k < kCount / 2; ++k) {
        if (i == k) score = scores[kFirst + k / 2 * 4 + k % 2];
      }
    }
    if (few.bits && at < room) {
      list[at] = {first_code + place * 2 + i / 2 * 8 + i % 2, score};
      written |= 1u << i;
    }
    count += __popc(quad);
    few.bits &= few.bits - 1;
  } while (few.several && __any_sync(~0u, few.bits > 0));
  if constexpr (kSums) {
#pragma unroll
    for (int k = 0; k < kCount / 2; ++k) {
      if (written >> k & 1) scores[kFirst + k / 2 * 4 + k % 2] = kNothing;
    }
  }
  if (!state.closed()) state.places = count > room ? ~room : count;
}

/// Lists the candidates among a latent's scores, every second pair of `scores` from kFirst on, if
/// no lane has more than a few of them; `top` is the lane's highest, and lanes that do not call
/// have none. False: some lane has more, or a closed list may be reopened, and nothing is done.
template <bool kSums, bool kUneven, int kFirst, int kCount>
__device__ bool collect_few(float (&scores)[kCount], float top, bool calls, const Part& part,
                            float rate, int first_code, const Lists& lists, int offset,
                            State& state) {
  const float slack = state.slack.of(part.header), highest = quad_max(top);
  const bool woken = state.closed() && calls;
  Few few{state.closed() ? state.floor : fmaxf(state.floor, highest - slack), 0, false};
  const float limit = state.closed() || !calls ? -kNothing : fmaxf(few.risen - slack, kLeast);
#pragma unroll
  for (int i = 0; i < kCount / 2; ++i) {
    if (scores[kFirst + i / 2 * 4 + i % 2] >= limit) few.bits |= 1u << i;
  }
  if (__any_sync(~0u, woken)) return false;
  few.several = __any_sync(~0u, __popc(few.bits) > 1);
  if (few.too_many()) {
    // The vote tells the compiler that all lanes go one way.
    if (!kUneven || !__any_sync(~0u, is_uneven(part.header))) return false;
    judge_each<kFirst>(scores, part, rate, state, few);
    if (few.too_many()) return false;
  }
  if constexpr (kSums) raise_floor(state, few.risen);
  state.floor = few.risen;
  write_few<kSums, kFirst>(scores, top, few, first_code, lists, offset, state);
  return true;
}

}  // namespace nsvq::sm90
