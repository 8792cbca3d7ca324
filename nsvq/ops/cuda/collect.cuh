// What a quad keeps of a latent during the first pass: a list of candidates and sums over the rest.
#pragma once

#include "nsvq/ops/cuda/ring.cuh"

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
  const Stream* stream;
  int64_t row;  ///< of the thread's first latent
  int split;

  /// The list of the latent `offset` rows on, and its room: none for rows past the last.
  __device__ Candidate* of(int offset, int& room) const {
    room = row + offset < stream->count ? stream->capacity : 0;
    return stream->candidates + ((row + offset) * stream->splits + split) * stream->capacity;
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

  /// The bound of the i-th code of a thread.
  __device__ float slack(const Slack& latent, int i) const {
    return latent.of(header, bias[threadIdx.x % 4 * 2 + i / 2 * 8 + i % 2], rate);
  }
};

/// Takes candidates out of a latent's scores: every second pair of `scores`, from kFirst on. As a
/// rule no lane has two.
template <int kPanels, bool kSums, int kFirst, int kCount>
__device__ void collect(float (&scores)[kCount], const Biases& biases, int first_code,
                        const Lists& lists, int offset, State& state) {
  float highest = kNothing;
#pragma unroll
  for (int i = 0; i < kCount / 2; ++i) {
    const float score = scores[kFirst + i / 2 * 4 + i % 2];
    highest = fmaxf(highest, score - biases.slack(state.slack, i));
  }
  const float floor = fmaxf(state.floor, quad_max(highest));
  if constexpr (kSums) raise_floor(state, floor);
  state.floor = floor;
  uint32_t hits = 0;
#pragma unroll
  for (int i = 0; i < kCount / 2; ++i) {
    const float score = scores[kFirst + i / 2 * 4 + i % 2];
    if (score >= kLeast && score >= floor - biases.slack(state.slack, i)) hits |= 1u << i;
  }
  const int own = __popc(hits);
  const Share share = share_of(own, __any_sync(~0u, own > 1));
  int room;
  Candidate* list = lists.of(offset, room);
  if (state.count <= room && state.count + share.total > room) {
    prune<kPanels, kSums>(state, list, lists.stream->codes, biases.rate);
  }
  int at = state.count + share.before;
  state.count += share.total;
  const int first = first_code + threadIdx.x % 4 * 2;
#pragma unroll
  for (int i = 0; i < kCount / 2; ++i) {
    if ((hits >> i & 1) == 0) continue;
    float& score = scores[kFirst + i / 2 * 4 + i % 2];
    if (at < room) list[at] = {first + i / 2 * 8 + i % 2, score};
    ++at;
    if constexpr (kSums) score = kNothing;
  }
}

}  // namespace nsvq::sm90
