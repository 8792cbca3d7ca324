// A latent's state during the first pass, kept by the four threads of a quad: the list of its
// candidates, and sums over all other codes.
//
// Usually a thread has no candidate in a tile or one, which is found in its registers
// (candidates_in_registers.cuh). Where some thread has many, or a closed list may be reopened, the
// scores go through shared memory, where a loop can reach them, 64 codes at a time, and the warp
// works on its latents one after the other, two codes to a lane: unrolled over registers, so much
// code would not fit the instruction cache.
#pragma once

#include "nsvq/ops/code_search/hopper/tile_ring.cuh"

namespace nsvq::sm90 {

struct State {
  float floor = -1e38f, sum = 0, moment = 0;
  int places = 0;  ///< candidates in the list; ~ of their number if it is closed
  Slack slack;

  __device__ bool closed() const { return places < 0; }
  __device__ int count() const { return closed() ? ~places : places; }
  __device__ void open() { places = count(); }
  /// The least score of a tile's code that calls for attention: a candidate's or, if the list is
  /// closed, one that raises the floor.
  __device__ float call(const Header& tile) const {
    return fmaf(slack.of(tile), closed() ? wake_of(tile) : -1.0f, floor);
  }
};

/// Raises a latent's floor and rescales its sums.
__device__ inline void raise_floor(State& state, float floor) {
  const float drop = state.floor - floor, share = power_of_two(drop);
  state.moment = share > 0 ? share * fmaf(drop, state.sum, state.moment) : 0.0f;
  state.sum *= share;
  state.floor = floor;
}

/// Scores of 8 latents by 64 codes, for a warp. Lanes of a quad write 8 floats of a row; with this
/// pitch no two rows meet in a bank.
struct Board {
  static constexpr int kCodes = 64, kPitch = 72;
  float scores[8][kPitch];

  /// The cells of a lane for the scores 2 i and 2 i + 1 of its latent.
  __device__ float2& own(int i) {
    return *reinterpret_cast<float2*>(&scores[threadIdx.x % 32 / 4][8 * i + threadIdx.x % 4 * 2]);
  }
};

struct Lists {
  const SearchPass* pass;
  int row;  ///< of the thread's first latent
  int split;
  int room = 0;  ///< capacity of each list at the current tile

  /// The capacity of lists grows with the number of tiles seen: a latent in a crowd then closes its
  /// list after few codes, which leaves less to write and to measure, while one that is near a code
  /// now and then keeps its list open.
  __device__ void grow(int tiles) { room = min(pass->capacity, 16 + tiles / 4); }
  __device__ int room_of(int latent) const { return latent < pass->count ? room : 0; }
};

/// Norms of 64 codes of a tile, two in a word, and what else their error bounds depend on.
struct Bounds {
  const Header& header;
  const uint32_t* norms;
  float rate;
};

__device__ inline float warp_max(float value) {
  const int bits = __float_as_int(value);  // with the signs flipped they compare as the values do
  const int most = __reduce_max_sync(~0u, bits ^ (bits >> 31 & 0x7fffffff));
  return __int_as_float(most ^ (most >> 31 & 0x7fffffff));
}

/// A latent's state, broadcast from its owner to the whole warp.
struct Seen {
  float floor;
  int places;
  Slack slack;

  __device__ Seen(const State& state, int owner)
      : floor(__shfl_sync(~0u, state.floor, owner)),
        places(__shfl_sync(~0u, state.places, owner)),
        slack{__shfl_sync(~0u, state.slack.alpha, owner),
              __shfl_sync(~0u, state.slack.beta, owner)} {}
};

/// Whether no code in the sums of a closed list, and none in the list, can be the nearest any more.
template <bool kSums>
__device__ bool all_left_behind(const SearchPass& pass, const Seen& seen, float risen) {
  const float reach = seen.slack.of(*pass.widest);
  return seen.floor + reach < risen && (!kSums || reach <= kMostReach);
}

/// Sum and moment of the candidates of a list that is given up.
__device__ inline float2 sums_of(const Candidate* list, int count, float floor) {
  float sum = 0, moment = 0;
  for (int i = threadIdx.x % 32; i < count; i += 32) {
    const float x = list[i].score - floor, e = power_of_two(x);
    sum += e;
    moment = e > 0 ? fmaf(e, x, moment) : moment;
  }
  for (int step = 16; step > 0; step /= 2) {
    sum += __shfl_xor_sync(~0u, sum, step);
    moment += __shfl_xor_sync(~0u, moment, step);
  }
  return {sum, moment};
}

/// Moves a latent's candidates among 64 codes from the board to its list. A list without room for
/// all of them is closed until the floor has risen above every code that it missed.
template <bool kSums>
__device__ void collect_several(Board& board, int owner, const Bounds& bounds, int first_code,
                                const Lists& lists, int offset, State& state) {
  const int lane = threadIdx.x % 32;
  const SearchPass& pass = *lists.pass;
  const Seen seen(state, owner);
  const CodeSlack slack = seen.slack.each(bounds.header, bounds.rate);
  float2& cells = *reinterpret_cast<float2*>(&board.scores[owner / 4][2 * lane]);
  const float2 scores = cells;
  const uint32_t pair = bounds.norms[lane];
  const float2 off{slack.of(low_norm(pair)), slack.of(high_norm(pair))};
  const float risen = fmaxf(seen.floor, warp_max(fmaxf(scores.x - off.x, scores.y - off.y)));
  bool closed = seen.places < 0;
  if (closed && !(risen > seen.floor)) return;
  const bool own = lane / 4 == owner / 4;
  if (own) {
    if constexpr (kSums) raise_floor(state, risen);
    state.floor = risen;
  }
  const int latent = lists.row - lane / 4 + owner / 4 + offset;
  const int room = lists.room_of(latent);
  Candidate* list = pass.candidates + (int64_t{latent} * pass.splits + lists.split) * pass.capacity;
  int count = closed ? ~seen.places : seen.places;
  if (closed && all_left_behind<kSums>(pass, seen, risen)) {
    if constexpr (kSums) {
      const float2 sums = sums_of(list, count, risen);
      if (lane == owner) {
        state.sum += sums.x;
        state.moment += sums.y;
      }
    }
    __syncwarp();
    closed = false;
    count = 0;
  }
  if (!closed) {
    const float limit = fmaxf(risen, kLeast);
    const uint32_t first = __ballot_sync(~0u, scores.x + off.x >= limit);
    const uint32_t second = __ballot_sync(~0u, scores.y + off.y >= limit);
    const uint32_t below = (1u << lane) - 1;
    int at = count + __popc(first & below) + __popc(second & below);
    const auto take = [&](float& cell, float score, int code) {
      if (at < room) {
        list[at] = {code, score};
        if constexpr (kSums) cell = kNothing;
      }
      ++at;
    };
    if (first >> lane & 1) take(cells.x, scores.x, first_code + 2 * lane);
    if (second >> lane & 1) take(cells.y, scores.y, first_code + 2 * lane + 1);
    count += __popc(first) + __popc(second);
    closed = count > room;
  }
  if (own) state.places = closed ? ~min(count, room) : count;
  __syncwarp();
}

/// Collects candidates among 64 codes for the latents that call.
template <bool kSums>
__device__ void attend(Board& board, bool calls, const Bounds& bounds, int first_code,
                       const Lists& lists, int offset, State& state) {
  __syncwarp();
  uint32_t owners = __ballot_sync(~0u, calls);
  owners |= owners >> 1;
  owners = (owners | owners >> 2) & 0x11111111u;  // the first lane of a quad of which any calls
  for (; owners; owners &= owners - 1) {
    collect_several<kSums>(board, __ffs(owners) - 1, bounds, first_code, lists, offset, state);
  }
  __syncwarp();
}

}  // namespace nsvq::sm90
