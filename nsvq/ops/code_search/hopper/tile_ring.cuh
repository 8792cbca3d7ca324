// A ring of tiles in shared memory, filled by one thread and read by warps (sm_90a).
#pragma once

#include "nsvq/ops/code_search/hopper/error_bounds.cuh"
#include "nsvq/ops/code_search/hopper/wgmma.cuh"

namespace nsvq::sm90 {

constexpr int kReaders = 256;             ///< threads of the two warpgroups that compute
constexpr int kThreads = kReaders + 128;  ///< with a third warpgroup, one thread of which copies

/// 2^x within 2 units in the last place; results below the normal numbers are 0.
__device__ inline float power_of_two(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

__device__ inline float quad_sum(float value) {
  value += __shfl_xor_sync(~0u, value, 1);
  return value + __shfl_xor_sync(~0u, value, 2);
}
__device__ inline float quad_max(float value) {
  value = fmaxf(value, __shfl_xor_sync(~0u, value, 1));
  return fmaxf(value, __shfl_xor_sync(~0u, value, 2));
}

/// The tiles of codes that a block reads: [first, last).
struct TileRange {
  int first, last;
  __device__ explicit TileRange(const SearchPass& pass)
      : first(static_cast<int>(int64_t{pass.code_tiles} * blockIdx.y / pass.splits)),
        last(static_cast<int>(int64_t{pass.code_tiles} * (blockIdx.y + 1) / pass.splits)) {}
};

#ifdef NSVQ_SM90A

template <int kStages>
struct Barriers {
  uint64_t full[kStages], empty[kStages], resident;

  __device__ void init() {
    for (int i = 0; i < kStages; ++i) {
      barrier_init(&full[i], 1);
      barrier_init(&empty[i], kReaders / 32);  // a warp arrives once, when its lanes have met
    }
    barrier_init(&resident, 1);
    barrier_init_fence();
  }
};

/// Moves registers from the warpgroup that copies to those that compute.
__device__ inline void take_registers() { asm volatile("setmaxnreg.inc.sync.aligned.u32 240;"); }
__device__ inline void give_registers() { asm volatile("setmaxnreg.dec.sync.aligned.u32 24;"); }

/// The position of a tile in the ring: its stage, and the parity of the round.
template <int kStages>
struct Place {
  int stage = 0;
  uint32_t round = 0;
  __device__ void advance() {
    if (++stage < kStages) return;
    stage = 0;
    round ^= 1;
  }
};

/// Copies `count` adjacent tiles through the ring, by one thread.
template <int kStages>
__device__ void fill(Barriers<kStages>& barriers, uint8_t* ring, const uint8_t* tiles,
                     int64_t count, uint32_t bytes) {
  Place<kStages> place;
  for (int64_t t = 0; t < count; ++t, place.advance()) {
    barrier_wait(&barriers.empty[place.stage], place.round ^ 1);
    copies_begin(&barriers.full[place.stage], bytes);
    bulk_copy(ring + place.stage * bytes, tiles + t * bytes, bytes, &barriers.full[place.stage]);
  }
}

/// The two warpgroups start their products in turns; without turns both would wait for products at
/// the same time and read them at the same time, with the tensor cores idle. A group has the turn
/// between wait and pass; the first group has it first.
struct Turn {
  int group;

  __device__ explicit Turn(int own) : group(own) {
    if (group == 1) pass(true);
  }
  __device__ void wait() const { asm volatile("bar.sync %0, 256;" ::"r"(1 + group) : "memory"); }
  /// `more`: this group will have another turn.
  __device__ void pass(bool more) const {
    if (group == 0 || more) asm volatile("bar.arrive %0, 256;" ::"r"(2 - group) : "memory");
  }
};

/// products [64, N] = 64 rows times the rows of a tile, both in panels kStride bytes apart.
template <int kPanels, int kCount>
__device__ void multiply(float (&products)[kCount], uint32_t rows, uint32_t tile) {
  constexpr uint32_t kStride = tile_rows(kPanels) * 128;
  mma_fence();
#pragma unroll
  for (int p = 0; p < kPanels; ++p) {
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      mma(products, operand(rows + p * kStride + k * 32), operand(tile + p * kStride + k * 32),
          p + k > 0);
    }
  }
  mma_commit();
}

/// Shared memory from its first multiple of 1,024 bytes on.
__device__ inline uint8_t* aligned(uint8_t* shared) {
  return shared + (1024 - shared_address(shared) % 1024) % 1024;
}

#endif  // NSVQ_SM90A

}  // namespace nsvq::sm90
