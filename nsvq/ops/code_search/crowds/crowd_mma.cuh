// Products of 16 latents of a crowd with codes of it in shared memory, by a warp (crowds.h).
#pragma once

#include <algorithm>
#include <cstddef>

#include "nsvq/ops/code_search/crowds/crowd_rows.cuh"
#include "nsvq/ops/code_search/sm80/mma_sync.cuh"

namespace nsvq::crowds {

using sm80::mma;

constexpr int kRows = 256;  ///< codes at a time, at most
constexpr int kTile = 16;   ///< latents of a product

constexpr int threads_for(int panels) { return panels <= 2 ? 512 : 256; }

/// A warp's hits on their way to the latents' lists: an entry there takes long to get, so 32 are
/// asked for at a time.
struct HitQueue {
  int32_t latents[64];
  Candidate hits[64];

  /// Called by all lanes, with a hit or without one (latent -1); `count` is the number of hits
  /// queued.
  __device__ void add(const Crowds& crowds, int32_t latent, const Candidate& hit, int& count) {
    const int lane = threadIdx.x % 32;
    const uint32_t votes = __ballot_sync(~0u, latent >= 0);
    if (latent >= 0) {
      const int at = count + __popc(votes & ((1u << lane) - 1));
      latents[at] = latent;
      hits[at] = hit;
    }
    count += __popc(votes);
    if (count >= 32) send(crowds, count);
  }
  __device__ void send(const Crowds& crowds, int& count) {
    __syncwarp();
    for (int i = threadIdx.x % 32; i < count; i += 32) {
      const int place = atomicAdd(crowds.hit_counts + latents[i], 1);
      if (place < kMostHits) crowds.hits[int64_t{latents[i]} * kMostHits + place] = hits[i];
    }
    count = 0;
    __syncwarp();
  }
};

/// Codes as differences to the centre of their crowd, and 8 rows to spare: codes are read by
/// eights. The values come last, since a GPU with little shared memory has fewer rows of them.
template <int kPanels>
struct Rows {
  /// The distance of neighbouring rows, in fp16 values: 64 bytes modulo 128, as 16-byte loads of
  /// two rows at a time need it.
  static constexpr int kPitch = kPanels * kPanelColumns + 32;
  Difference differences[kRows + 8];
  int32_t codes[kRows + 8], crowds[kRows];
  HitQueue queues[threads_for(kPanels) / 32];
  alignas(16) uint16_t values[(kRows + 8) * kPitch];

  /// How many rows fit `bytes`, and the bytes that these take.
  static int rows_in(int64_t bytes) {
    const int64_t values_fit =
        (bytes - static_cast<int64_t>(offsetof(Rows, values))) / (2 * kPitch);
    return static_cast<int>(std::min<int64_t>(values_fit - 8, kRows));
  }
  static int bytes_for(int rows) {
    return static_cast<int>(offsetof(Rows, values)) + (rows + 8) * 2 * kPitch;
  }
};

/// How the codes in shared memory and the work on them are divided among the crowds.
struct Shares {
  int counts[kCentres], firsts[kCentres + 1];  ///< codes
  int first_tiles[kCentres + 1];               ///< products

  __device__ void clear() {
    if (threadIdx.x < kCentres) counts[threadIdx.x] = 0;
  }
  __device__ int add(int crowd) { return atomicAdd(&counts[crowd], 1); }
  /// Divides `room` rows among the crowds by their counts, and the products by their `sizes` in
  /// latents. Codes that do not fit are left out.
  __device__ void place(const int32_t* sizes, int room) {
    if (threadIdx.x >= kCentres) return;
    const auto lane = static_cast<int>(threadIdx.x);
    const int last = inclusive_sum(counts[lane]);
    const int first = min(last - counts[lane], room);
    const int count = min(last, room) - first;
    const int size = count > 0 ? sizes[lane] : 0;
    const int last_tile = inclusive_sum((size + kTile - 1) / kTile);
    counts[lane] = count;
    firsts[lane + 1] = min(last, room);
    first_tiles[lane + 1] = last_tile;
    if (lane == 0) firsts[0] = first_tiles[0] = 0;
  }
  __device__ int rows() const { return firsts[kCentres]; }
  __device__ int tiles() const { return first_tiles[kCentres]; }
  /// The crowd to which a product belongs.
  __device__ int crowd_of(int tile) const {
    return 31 - __clz(__ballot_sync(~0u, first_tiles[threadIdx.x % 32] <= tile));
  }

 private:
  __device__ static int inclusive_sum(int value) {
    for (int step = 1; step < 32; step *= 2) {
      const int other = __shfl_up_sync(~0u, value, step);
      if (static_cast<int>(threadIdx.x) >= step) value += other;
    }
    return value;
  }
};

/// 16 latents of a crowd. Blocks begin at different tiles, so that one finds the floors that
/// another has raised.
struct Tile {
  int crowd;
  int32_t latents[2];  ///< the thread's two: -1 past the last

  __device__ Tile(const Crowds& crowds, const int32_t* sizes, const int32_t* starts,
                  const Shares& shares, int tile) {
    crowd = shares.crowd_of(tile);
    const int size = sizes[crowd], tiles = (size + kTile - 1) / kTile;
    const int own = (tile - shares.first_tiles[crowd] + static_cast<int>(blockIdx.x)) % tiles;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int place = own * kTile + static_cast<int>(threadIdx.x) % 32 / 4 + 8 * r;
      latents[r] = place < size ? __ldcg(crowds.latents + starts[crowd] + place) : -1;
    }
  }
};

/// The two latents of a thread, 8 rows apart, shared by the lanes of a quad.
template <int kPanels>
struct Pair {
  uint4 values[2][2 * kPanels];
  int32_t latents[2];
  Slopes slopes[2];
  float unit[2], floor[2];

  __device__ Pair(const Crowds& crowds, const Tile& tile) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      latents[r] = tile.latents[r];
      const int64_t row = max(latents[r], 0);
      const auto* from =
          reinterpret_cast<const uint4*>(crowds.rows + row * (kPanels * kPanelColumns));
#pragma unroll
      for (int i = 0; i < 2 * kPanels; ++i) values[r][i] = from[i * 4 + lane % 4];
      const Difference own = crowds.differences[row];
      unit[r] = 2 * own.unit;
      slopes[r] = slopes_of(own, kKappa<kPanels>);
      floor[r] = __int_as_float(__ldcg(crowds.floors + row));
    }
  }

  /// Products with 8 codes. A thread's 16 bytes of 32 columns are two steps of 16: the order of
  /// columns does not matter as long as latents and codes have one.
  __device__ void multiply(const Rows<kPanels>& rows, int first, float (&sums)[4]) const {
    const int lane = threadIdx.x % 32;
    const auto* from =
        reinterpret_cast<const uint4*>(rows.values + (first + lane / 4) * Rows<kPanels>::kPitch);
#pragma unroll
    for (float& sum : sums) sum = 0;
#pragma unroll
    for (int i = 0; i < 2 * kPanels; ++i) {
      const uint4 b = from[i * 4 + lane % 4];
      mma(sums, values[0][i].x, values[1][i].x, values[0][i].y, values[1][i].y, b.x, b.y);
      mma(sums, values[0][i].z, values[1][i].z, values[0][i].w, values[1][i].w, b.z, b.w);
    }
  }

  /// Calls visit(r, row, whether there is such a row, score, its error bound) for the thread's
  /// scores of 8 codes.
  template <typename Visit>
  __device__ void each(const Rows<kPanels>& rows, int first, int last, Visit visit) const {
    float sums[4];
    multiply(rows, first, sums);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = first + static_cast<int>(threadIdx.x) % 4 * 2 + i;
      const Difference code = rows.differences[row];
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const float score = fmaf(sums[2 * r + i] * code.unit, unit[r], -code.square);
        visit(r, row, row < last, score, score_error(slopes[r], code));
      }
    }
  }
};

/// Queues the hits of 16 latents among the codes of their crowd: computes all products once to
/// raise the floors, and again those, 8 codes each, that may hold a hit.
template <int kPanels>
__device__ void find_hits(const Crowds& crowds, const Tile& tile, const Shares& shares,
                          const Rows<kPanels>& rows, HitQueue& queue) {
  const int first = shares.firsts[tile.crowd], last = first + shares.counts[tile.crowd];
  Pair<kPanels> pair(crowds, tile);
  uint32_t hopeful = 0;
  float highest[2] = {0, 0};
  for (int i = 0; first + 8 * i < last; ++i) {
    bool any = false;
    pair.each(rows, first + 8 * i, last, [&](int r, int, bool there, float score, float slack) {
      any = any || (there && !(score + slack < pair.floor[r]));
      highest[r] = there ? fmaxf(highest[r], score - slack) : highest[r];
    });
    if (__any_sync(~0u, any)) hopeful |= 1u << i;
  }
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    highest[r] = fmaxf(highest[r], __shfl_xor_sync(~0u, highest[r], 1));
    highest[r] = fmaxf(highest[r], __shfl_xor_sync(~0u, highest[r], 2));
    if (!(highest[r] > pair.floor[r])) continue;
    pair.floor[r] = highest[r];
    if (threadIdx.x % 4 == 0 && pair.latents[r] >= 0) {
      atomicMax(crowds.floors + pair.latents[r], __float_as_int(highest[r]));
    }
  }
  int queued = 0;
  for (; hopeful; hopeful &= hopeful - 1) {
    const int eight = first + 8 * (__ffs(hopeful) - 1);
    pair.each(rows, eight, last, [&](int r, int row, bool there, float score, float slack) {
      const bool hit = there && pair.latents[r] >= 0 && !(score + slack < pair.floor[r]);
      queue.add(crowds, hit ? pair.latents[r] : -1, {rows.codes[row], score + slack}, queued);
    });
  }
  if (queued > 0) queue.send(crowds, queued);
}

}  // namespace nsvq::crowds
