// The epilogue of the first pass: from the products of a tile to candidates and softmax sums.
#pragma once

#include "nsvq/ops/code_search/candidate_lists.cuh"

namespace nsvq::sm90 {

/// Adds a latent's scores to its sums.
template <int kFirst, int kCount>
__device__ void add_weights(const float (&scores)[kCount], State& state) {
  float sum = 0, moment = 0;
#pragma unroll
  for (int i = kFirst; i < kCount; i += 4) {
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      const float x = scores[i + k] - state.floor, e = power_of_two(x);
      sum += e;
      moment = fmaf(e, x, moment);
    }
  }
  state.sum += sum;
  state.moment += moment;
}

/// Products of a tile to scores, and the highest of the thread's two latents, 8 rows apart.
template <int kCount>
__device__ void score(float (&scores)[kCount], const float* bias, float twice_rate,
                      float (&top)[2]) {
  float highest[4] = {kNothing, kNothing, kNothing, kNothing};
#pragma unroll
  for (int i = 0; i < kCount; i += 4) {
    const float2 own = *reinterpret_cast<const float2*>(bias + 2 * i + threadIdx.x % 4 * 2);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      scores[i + k] = fmaf(scores[i + k], twice_rate, k % 2 == 0 ? own.x : own.y);
      highest[k] = fmaxf(highest[k], scores[i + k]);
    }
  }
  top[0] = fmaxf(highest[0], highest[1]);
  top[1] = fmaxf(highest[2], highest[3]);
}

/// Reads the products of a tile: candidates to their lists, all other scores to the sums.
template <int kPanels, bool kSums, int kCount>
__device__ void search_epilogue(float (&scores)[kCount], const uint8_t* tile, float twice_rate,
                                int first_code, const Lists& lists, int offset,
                                State (&states)[2]) {
  const auto* bias = reinterpret_cast<const float*>(tile + body_bytes(kPanels));
  const Header& header = *reinterpret_cast<const Header*>(bias + tile_rows(kPanels));
  const Biases biases{bias, header, 0.5f * twice_rate};
  float top[2];
  score(scores, bias, twice_rate, top);
  const float slack[2] = {states[0].slack.of(header), states[1].slack.of(header)};
  if (__any_sync(~0u, top[0] >= states[0].floor - slack[0])) {
    collect_candidates<kPanels, kSums, 0>(scores, top[0], slack[0], biases, first_code, lists,
                                          offset, states[0]);
  }
  if (__any_sync(~0u, top[1] >= states[1].floor - slack[1])) {
    collect_candidates<kPanels, kSums, 2>(scores, top[1], slack[1], biases, first_code, lists,
                                          offset + 8, states[1]);
  }
  if constexpr (kSums) {
    // Weights below 2^-127 of the best are 0 in fp32.
    const bool matters = top[0] > states[0].floor - 127 || top[1] > states[1].floor - 127;
    if (!__any_sync(~0u, matters)) return;
    add_weights<0>(scores, states[0]);
    add_weights<2>(scores, states[1]);
  }
}

}  // namespace nsvq::sm90
