// A ring of tiles in shared memory, filled by asynchronous copies, and products of its tiles
// (compute capability 8.0 and up).
#pragma once

#include "nsvq/ops/code_search/hopper/error_bounds.cuh"
#include "nsvq/ops/code_search/sm80/fragments.h"
#include "nsvq/ops/code_search/sm80/mma_sync.cuh"
#include "nsvq/ops/code_search/sm80/ring.h"

namespace nsvq::sm80 {

/// What a block's warps share about its ring: whether a stage holds its next tile, and how many
/// warps have read the one in it.
struct Stages {
  uint64_t full[kMostStages];
  int read[kMostStages];

  __device__ void init() {
    for (int i = 0; i < kMostStages; ++i) {
      barrier_init(&full[i], 32);
      read[i] = 0;
    }
  }
};

/// `count` adjacent tiles on their way through the ring, as one warp of `readers` sees them. No
/// warp waits for a stage to become free: the last one that has read it fills it again.
template <int kPanels>
struct Ring {
  static constexpr int kBytes = tile_bytes(kPanels), kStep = 32 * 16;
  static_assert(kBytes % kStep == 0);

  uint8_t* memory;
  int size;  ///< stages
  Stages& stages;
  const uint8_t* tiles;
  int64_t count;
  int readers;
  int64_t tile = 0;
  int stage = 0;
  uint32_t round = 0;

  /// Copies the first tiles, those of one warp by this.
  __device__ void start() {
    for (int i = static_cast<int>(threadIdx.x) / 32; i < size && i < count; i += readers) {
      copy(i, i);
    }
  }
  /// Waits for the next tile; null after the last.
  __device__ const uint8_t* next() {
    if (tile == count) return nullptr;
    barrier_wait(&stages.full[stage], round);
    return memory + stage * kBytes;
  }
  /// Gives the tile back.
  __device__ void release() {
    __syncwarp();
    int last = 0;
    if (threadIdx.x % 32 == 0) {
      __threadfence_block();  // what was read of the tile was read before
      last = atomicAdd(&stages.read[stage], 1) == readers - 1;
      if (last) stages.read[stage] = 0;
      __threadfence_block();
    }
    last = __shfl_sync(~0u, last, 0);
    if (last && tile + size < count) copy(tile + size, stage);
    ++tile;
    if (++stage < size) return;
    stage = 0;
    round ^= 1;
  }
  /// No copy is under way when a warp ends.
  __device__ static void finish() { wait_for_copies(); }

 private:
  __device__ void copy(int64_t from_tile, int to_stage) const {
    const int own = static_cast<int>(threadIdx.x) % 32 * 16;
    const uint8_t* from = tiles + from_tile * kBytes + own;
    uint8_t* to = memory + to_stage * kBytes + own;
#pragma unroll 4
    for (int i = 0; i < kBytes; i += kStep) copy_piece(to + i, from + i);
    arrive_after_copies(&stages.full[to_stage]);
  }
};

/// The left operands of 16 rows of tiles in memory, from row `first` on, in a warp's registers.
template <int kPanels>
struct Left {
  uint32_t values[4 * kPanels][4];

  __device__ void load(const uint8_t* tiles, int64_t first) {
    constexpr int kRows = tile_rows(kPanels);
    const uint8_t* tile = tiles + first / kRows * tile_bytes(kPanels);
    const int lane = threadIdx.x % 32, row = static_cast<int>(first % kRows);
#pragma unroll
    for (int k = 0; k < 4 * kPanels; ++k) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int column = left_column(lane, i);
        const int at = piece_offset(kRows, k / 4, row + left_row(lane, i), k % 4 * 2 + column / 8);
        values[k][i] = __ldg(reinterpret_cast<const uint32_t*>(tile + at + column % 8 * 2));
      }
    }
  }
};

/// A lane's offsets in a panel for the right operands of the panel's four steps of 16 columns.
struct RightOffsets {
  uint32_t values[4];
  __device__ RightOffsets() {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      values[k] = piece_offset(0, 0, right_row(lane), 2 * k + right_piece(lane));
    }
  }
};

/// products [16, kCodes] = each of the left rows times kCodes rows of a tile in shared memory, from
/// `codes` (the address of a row that is a multiple of 8) on. A lane's products 4 i to 4 i + 3 are
/// those of eight codes. Right operands are loaded two steps ahead.
template <int kPanels, int kHalves, int kCount>
__device__ void multiply(float (&products)[kHalves][kCount], const Left<kPanels> (&left)[kHalves],
                         uint32_t codes, const RightOffsets& offsets) {
  constexpr int kSixteens = kCount / 8, kSteps = 4 * kPanels * kSixteens, kAhead = 2;
  constexpr int kStride = tile_rows(kPanels) * 128;
#pragma unroll
  for (int h = 0; h < kHalves; ++h) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) products[h][i] = 0;
  }
  uint32_t right[kAhead + 1][4];
  const auto load = [&](int step) {
    const int k = step / kSixteens, n = step % kSixteens;
    load_matrices(right[step % (kAhead + 1)],
                  codes + k / 4 * kStride + n * 16 * 128 + offsets.values[k % 4]);
  };
#pragma unroll
  for (int step = 0; step < kAhead; ++step) load(step);
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    if (step + kAhead < kSteps) load(step + kAhead);
    const uint32_t(&b)[4] = right[step % (kAhead + 1)];
    const int n = step % kSixteens;
#pragma unroll
    for (int h = 0; h < kHalves; ++h) {
      const uint32_t(&a)[4] = left[h].values[step / kSixteens];
      mma(&products[h][8 * n], a[0], a[1], a[2], a[3], b[0], b[1]);
      mma(&products[h][8 * n + 4], a[0], a[1], a[2], a[3], b[2], b[3]);
    }
  }
}

}  // namespace nsvq::sm80
