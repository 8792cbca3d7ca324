// The products of a block's latents with a range of the codes, tile by tile (compute capability 8.0
// and up).
//
// A warp has 32 latents (16 of d above 128) as left operands in its registers and reads the tiles
// of codes from the block's ring, 64 codes at a time. Warps run up to a tile apart, so that one's
// products are under way while another's scores are read. A latent's scores lie in the four lanes
// of a quad.
#pragma once

#include <type_traits>

#include "nsvq/ops/code_search/hopper/tile_ring.cuh"
#include "nsvq/ops/code_search/sm80/tile_ring.cuh"

namespace nsvq::sm80 {

using sm90::TileRange;

constexpr int kPartCodes = 64;

/// The first of the thread's latents; the others are 8, 16 and 24 further on.
template <int kPanels>
__device__ inline int first_latent() {
  const int thread = static_cast<int>(threadIdx.x);
  return static_cast<int>(blockIdx.x) * block_latents_for(kPanels) +
         thread / 32 * 16 * halves_for(kPanels) + thread % 32 / 4;
}

/// Warps of the block that have latents.
template <int kPanels>
__device__ int readers_of(const SearchPass& pass) {
  constexpr int kOwn = 16 * halves_for(kPanels);
  const int64_t left = pass.count - int64_t{blockIdx.x} * block_latents_for(kPanels);
  return static_cast<int>(min((left + kOwn - 1) / kOwn, int64_t{kWarps}));
}

/// Calls visit(products, part of a tile, its first code, half as a constant) for all codes in the
/// ring, whose first is `code`; by a warp.
template <int kPanels, typename Visit>
__device__ void read_tiles(const SearchPass& pass, Ring<kPanels>& ring, int code, Visit visit) {
  constexpr int kHalves = halves_for(kPanels), kRows = tile_rows(kPanels);
  const int row = first_latent<kPanels>() - static_cast<int>(threadIdx.x) % 32 / 4;
  const RightOffsets offsets;
  Left<kPanels> left[kHalves];
#pragma unroll
  for (int h = 0; h < kHalves; ++h) left[h].load(pass.latents, row + 16 * h);
  while (const uint8_t* tile = ring.next()) {
#pragma unroll 1
    for (int first = 0; first < kRows; first += kPartCodes, code += kPartCodes) {
      float products[kHalves][kPartCodes / 2];
      multiply<kPanels>(products, left, shared_address(tile) + first * 128, offsets);
      const Part part = part_of<kPanels>(tile, first);
      visit(products[0], part, code, std::integral_constant<int, 0>());
      if constexpr (kHalves == 2) visit(products[1], part, code, std::integral_constant<int, 1>());
    }
    ring.release();
  }
}

/// Calls read(ring, its first tile) in each warp of the block that has latents.
template <int kPanels, typename Read>
__device__ void sweep_tiles(const SearchPass& pass, uint8_t* shared, int size, Read read) {
  __shared__ Stages stages;
  if (threadIdx.x == 0) stages.init();
  __syncthreads();
  const TileRange range(pass);
  const int readers = readers_of<kPanels>(pass);
  if (static_cast<int>(threadIdx.x) / 32 >= readers) return;
  Ring<kPanels> ring{shared,
                     size,
                     stages,
                     pass.codes + range.first * int64_t{tile_bytes(kPanels)},
                     range.last - range.first,
                     readers};
  ring.start();
  read(ring, range.first);
  ring.finish();
}

}  // namespace nsvq::sm80
