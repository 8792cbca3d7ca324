// What the four threads of a quad keep of a latent during the first pass: the list of its
// candidates, and sums over all other codes.
//
// As a rule a tile has no candidate for a thread or one, which is found in its registers
// (few_candidates.cuh). Where some thread has many, or a closed list is to be opened, the scores go
// through shared memory, where a loop can reach them, 64 codes at a time, and the warp takes its
// latents one after the other, two codes to a lane: so much code for each register would not fit
// the instruction cache.
#pragma once

#include "nsvq/ops/code_search/hopper/tile_ring.cuh"

namespace nsvq::sm90 {

struct State {
  float floor = -1e38f, sum = 0, moment = 0;
  int places = 0;  ///< of the list that are taken; ~ of it if the list is closed
  Slack slack;

  __device__ bool closed() const { return places < 0; }
  __device__ int count() const { return closed() ? ~places : places; }
  __device__ void open() { places = count(); }
  /// The score from which on a code of a tile calls for attention: a candidate's or, if the list is
  /// closed, one that raises the floor.
  __device__ float call(const Header& tile) const {
    return fmaf(slack.of(tile), closed() ? wake_of(tile) : -1.0f, floor);
  }
};

/// Moves the sums of a latent to a higher floor.
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

  /// Where a lane keeps the scores 2 i and 2 i + 1 of its latent.
  __device__ float2& own(int i) {
    return *reinterpret_cast<float2*>(&scores[threadIdx.x % 32 / 4][8 * i + threadIdx.x % 4 * 2]);
  }
};

struct Lists {
  const SearchPass* pass;
  int row;  ///< of the thread's first latent
  int split;
  int room = 0;  ///< of each list, for the tile at hand

  /// Room grows with the tiles that were seen: a latent in a crowd closes its list after few codes,
  /// which are less to write and to measure, while one that is near a code now and then keeps it
  /// open.
  __device__ void grow(int tiles) { room = min(pass->capacity, 16 + tiles / 4); }
  __device__ int room_of(int latent) const { return latent < pass->count ? room : 0; }
};

/// What is known of 64 codes of a tile: two norms a word.
struct Bounds {
  const Header& header;
  const uint32_t* norms;
  float rate;
};

__device__ inline float warp_max(float value) {
  const int bits =
      __float_as_int(value);  // with the signs turned they have the order of the values
  const int most = __reduce_max_sync(~0u, bits ^ (bits >> 31 & 0x7fffffff));
  return __int_as_float(most ^ (most >> 31 & 0x7fffffff));
}

/// A latent as the whole warp sees it.
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

/// Whether no code that went to the sums of a closed list, and none in the list, can be the nearest
/// any more.
template <bool kSums>
__device__ bool all_left_behind(const SearchPass& pass, const Seen& seen, float risen) {
  const float reach = seen.slack.of(*pass.widest);
  return seen.floor + reach < risen && (!kSums || reach <= kMostReach);
}

/// Sums over a list that is given up.
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

/// Takes a latent's candidates among 64 codes out of the scores of the board. A list without room
/// for all of them is closed, and stays it until the floor has risen above all that it missed.
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

/// Looks after the latents that call, on 64 codes.
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
