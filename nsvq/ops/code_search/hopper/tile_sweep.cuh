// The products of a block's 256 latents with a range of the codes, tile by tile (sm_90a).
//
// The block holds its latents and streams the codes through a ring of tiles. Each of its two
// warpgroups has 128 latents as two halves of 64 with a product each, so that one half's product is
// under way while the other half's scores are read. A latent's scores lie in the four threads of a
// quad.
#pragma once

#include <type_traits>

#include "nsvq/ops/code_search/hopper/tile_ring.cuh"

namespace nsvq::sm90 {

constexpr int kBlockLatents = kHopperBlockLatents;
__host__ __device__ constexpr int stages_for(int panels) { return panels <= 2 ? 4 : 2; }
__host__ __device__ constexpr int resident_bytes(int panels) {
  return kBlockLatents / tile_rows(panels) * body_bytes(panels);
}
/// Bytes of shared memory of a block up to the end of the ring.
__host__ __device__ constexpr int sweep_bytes(int panels) {
  return 1024 + resident_bytes(panels) + stages_for(panels) * tile_bytes(panels);
}

/// The first of the thread's latents; the others are 8, 64 and 72 further on.
__device__ inline int first_latent() {
  const int lane = threadIdx.x % 32;
  return static_cast<int>(blockIdx.x) * kBlockLatents + static_cast<int>(threadIdx.x) / 128 * 128 +
         static_cast<int>(threadIdx.x) % 128 / 32 * 16 + lane / 4;
}

#ifdef NSVQ_SM90A

/// Copies the block's latents, then the tiles of codes; by one thread.
template <int kPanels, int kStages>
__device__ void copy_tiles(const SearchPass& pass, Barriers<kStages>& barriers, uint8_t* resident,
                           const TileRange& range) {
  constexpr int kTiles = kBlockLatents / tile_rows(kPanels);
  copies_begin(&barriers.resident, resident_bytes(kPanels));
  for (int i = 0; i < kTiles; ++i) {
    bulk_copy(resident + i * body_bytes(kPanels),
              pass.latents + (blockIdx.x * int64_t{kTiles} + i) * tile_bytes(kPanels),
              body_bytes(kPanels), &barriers.resident);
  }
  fill(barriers, resident + resident_bytes(kPanels),
       pass.codes + range.first * int64_t{tile_bytes(kPanels)}, range.last - range.first,
       tile_bytes(kPanels));
}

/// Calls visit(products, tile, its number, half as a constant) for each tile; by a warpgroup.
template <int kPanels, int kStages, typename Visit>
__device__ void sweep_tiles(Barriers<kStages>& barriers, const uint8_t* resident,
                            const TileRange& range, Visit visit) {
  constexpr int kRows = tile_rows(kPanels);
  const int group = static_cast<int>(threadIdx.x) / 128, lane = threadIdx.x % 32;
  const uint8_t* ring = resident + resident_bytes(kPanels);
  uint32_t halves[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int at = group * 128 + h * 64;
    halves[h] = shared_address(resident) + at / kRows * body_bytes(kPanels) + at % kRows * 128;
  }
  float left[kRows / 2], right[kRows / 2];
  Place<kStages> place;
  const Turn turn(group);
  barrier_wait(&barriers.resident, 0);
  for (int t = range.first; t < range.last; ++t, place.advance()) {
    const uint8_t* tile = ring + place.stage * tile_bytes(kPanels);
    barrier_wait(&barriers.full[place.stage], place.round);
    turn.wait();
    multiply<kPanels>(left, halves[0], shared_address(tile));
    multiply<kPanels>(right, halves[1], shared_address(tile));
    mma_wait<1>();
    pin(left);
    turn.pass(t + 1 < range.last);
    visit(left, tile, t, std::integral_constant<int, 0>());
    mma_wait<0>();
    pin(right);
    visit(right, tile, t, std::integral_constant<int, 1>());
    __syncwarp();
    if (lane == 0) barrier_arrive(&barriers.empty[place.stage]);
  }
}

#endif  // NSVQ_SM90A

}  // namespace nsvq::sm90
