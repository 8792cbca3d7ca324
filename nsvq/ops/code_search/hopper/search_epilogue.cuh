// The epilogue of the first pass: from the products of a tile to candidates and softmax sums.
#pragma once

#include <type_traits>

#include "nsvq/ops/code_search/hopper/candidates_in_registers.cuh"

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

/// Turns products of a tile into scores; `top` gets the highest of each of the thread's two
/// latents, 8 rows apart.
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

/// Writes the scores of one of the thread's latents with 64 codes of the tile to the board; returns
/// the highest.
template <int kRow, int kPart, int kCount>
__device__ float write_board(const float (&scores)[kCount], Board& board) {
  float top = kNothing;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const float2 two{scores[kPart * 32 + 4 * i + 2 * kRow],
                     scores[kPart * 32 + 4 * i + 2 * kRow + 1]};
    board.own(i) = two;
    top = fmaxf(top, fmaxf(two.x, two.y));
  }
  return top;
}
template <int kRow, int kPart, int kCount>
__device__ void read_board(float (&scores)[kCount], Board& board) {
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const float2 two = board.own(i);
    scores[kPart * 32 + 4 * i + 2 * kRow] = two.x;
    scores[kPart * 32 + 4 * i + 2 * kRow + 1] = two.y;
  }
}

/// Calls visit(row, part) with the constants that `place` stands for.
template <int kParts, typename Visit>
__device__ void at_place(int place, Visit visit) {
  using std::integral_constant;
  if (place == 0) visit(integral_constant<int, 0>(), integral_constant<int, 0>());
  if (place == 1 && kParts == 1) visit(integral_constant<int, 1>(), integral_constant<int, 0>());
  if constexpr (kParts == 2) {
    if (place == 1) visit(integral_constant<int, 0>(), integral_constant<int, 1>());
    if (place == 2) visit(integral_constant<int, 1>(), integral_constant<int, 0>());
    if (place == 3) visit(integral_constant<int, 1>(), integral_constant<int, 1>());
  }
}

/// Collects the candidates of the latents in `rows` (one bit each) through the board.
template <bool kSums, int kCount>
__device__ void collect_by_board(float (&scores)[kCount], uint32_t rows, const bool (&calls)[2],
                                 const Part& codes, float rate, int first_code, const Lists& lists,
                                 int offset, Board& board, State (&states)[2]) {
  constexpr int kParts = kCount / 32;
#pragma unroll 1
  for (int place = 0; place < 2 * kParts; ++place) {
    const int r = place / kParts, part = place % kParts;
    if ((rows >> r & 1) == 0) continue;
    State state = r == 0 ? states[0] : states[1];
    float top = kNothing;
    at_place<kParts>(place,
                     [&](auto row, auto half) { top = write_board<row, half>(scores, board); });
    const bool own = (r == 0 ? calls[0] : calls[1]) && top >= state.call(codes.header);
    if (!__any_sync(~0u, own)) continue;
    const Bounds bounds{codes.header, codes.norms + part * (Board::kCodes / 2), rate};
    attend<kSums>(board, own, bounds, first_code + part * Board::kCodes, lists, offset + 8 * r,
                  state);
    if constexpr (kSums) {
      at_place<kParts>(place, [&](auto row, auto half) { read_board<row, half>(scores, board); });
    }
    states[0] = r == 0 ? state : states[0];
    states[1] = r == 0 ? states[1] : state;
  }
}

/// Clears the calls that an uneven tile's bound makes and the bounds of its codes do not.
template <int kCount>
__device__ void judge_calls(const float (&scores)[kCount], const Part& part, float rate,
                            const State (&states)[2], bool (&calls)[2]) {
  const CodeSlack slack[2] = {states[0].slack.each(part.header, rate),
                              states[1].slack.each(part.header, rate)};
  const float reach[2] = {highest_with<0>(scores, part, slack[0].slope),
                          highest_with<2>(scores, part, slack[1].slope)};
#pragma unroll
  for (int r = 0; r < 2; ++r) calls[r] = calls[r] && reach[r] + slack[r].base >= states[r].floor;
}

/// Turns the products of a part of a tile into scores, lists the candidates and adds all other
/// scores to the sums. kUneven: the tile may be uneven.
template <bool kSums, bool kUneven, int kCount>
__device__ void search_epilogue(float (&scores)[kCount], const Part& part, float twice_rate,
                                int first_code, const Lists& lists, int offset, Board& board,
                                State (&states)[2]) {
  float top[2];
  score(scores, part.bias, twice_rate, top);
  bool calls[2] = {top[0] >= states[0].call(part.header), top[1] >= states[1].call(part.header)};
  if (__any_sync(~0u, calls[0] || calls[1])) {
    const float rate = 0.5f * twice_rate;
    if (kUneven && is_uneven(part.header)) judge_calls(scores, part, rate, states, calls);
    uint32_t left = 0;
    if (__any_sync(~0u, calls[0]) &&
        !collect_few<kSums, kUneven, 0>(scores, top[0], calls[0], part, rate, first_code, lists,
                                        offset, states[0])) {
      left = 1;
    }
    if (__any_sync(~0u, calls[1]) &&
        !collect_few<kSums, kUneven, 2>(scores, top[1], calls[1], part, rate, first_code, lists,
                                        offset + 8, states[1])) {
      left |= 2;
    }
    if (left) {
      collect_by_board<kSums>(scores, left, calls, part, rate, first_code, lists, offset, board,
                              states);
    }
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
