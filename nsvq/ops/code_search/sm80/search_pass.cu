// The first pass by mma.sync: every latent against every code, tile by tile. What becomes of a
// score is hopper/search_epilogue.cuh's to say.
#include "nsvq/ops/code_search/hopper/pack_rows.cuh"
#include "nsvq/ops/code_search/hopper/search_epilogue.cuh"
#include "nsvq/ops/code_search/sm80/launch.cuh"
#include "nsvq/ops/code_search/sm80/sm80_passes.h"
#include "nsvq/ops/code_search/sm80/tile_sweep.cuh"

namespace nsvq::sm80 {

namespace {

using sm90::Board, sm90::Lists, sm90::State;

constexpr int kBoardBytes = kWarps * static_cast<int>(sizeof(Board));

template <bool kSums>
__device__ void write_partial(const State& state, const SearchPass& pass, int64_t row, int split) {
  const float sum = kSums ? sm90::quad_sum(state.sum) : 0;
  const float moment = kSums ? sm90::quad_sum(state.moment) : 0;
  if (threadIdx.x % 4 == 0 && row < pass.count) {
    pass.partials[row * pass.splits + split] = {state.floor, sum, moment, state.places};
  }
}

/// The first pass of a warp.
template <int kPanels, bool kSums>
__device__ void search(const SearchPass& pass, Ring<kPanels>& ring, int first_tile, Board& board) {
  constexpr int kHalves = halves_for(kPanels);
  Lists lists{&pass, first_latent<kPanels>(), static_cast<int>(blockIdx.y)};
  const float rate = unit_of(pass.range, pass.tau).rate;
  State states[kHalves][2];
#pragma unroll
  for (int i = 0; i < 2 * kHalves; ++i) {
    const int latent = lists.row + 8 * i;
    states[i / 2][i % 2].slack =
        slack_of<kPanels>(latent < pass.count ? pass.rows[latent] : Row{}, rate);
  }
  read_tiles(pass, ring, first_tile * tile_rows(kPanels),
             [&](auto& products, const Part& part, int first_code, auto half) {
               if (half == 0) lists.grow(static_cast<int>(ring.tile));
               sm90::search_epilogue<kSums, /*kUneven=*/true>(
                   products, part, 2 * rate, first_code, lists, 16 * half, board, states[half]);
             });
#pragma unroll
  for (int i = 0; i < 2 * kHalves; ++i) {
    write_partial<kSums>(states[i / 2][i % 2], pass, lists.row + 8 * i, lists.split);
  }
}

template <int kPanels, bool kSums>
__global__ void __launch_bounds__(kThreads, 1)
    search_pass_kernel(const __grid_constant__ SearchPass pass, int stages) {
  extern __shared__ __align__(128) uint8_t shared[];
  auto* boards = reinterpret_cast<Board*>(shared + stages * tile_bytes(kPanels));
  sweep_tiles<kPanels>(pass, shared, stages, [&](Ring<kPanels>& ring, int first_tile) {
    search<kPanels, kSums>(pass, ring, first_tile, boards[threadIdx.x / 32]);
  });
}

}  // namespace

int64_t block_latents(int64_t dimension) { return block_latents_for(panels_for(dimension)); }

void run_search_pass(const SearchPass& pass, int64_t dimension, int64_t shared_limit,
                     cudaStream_t stream) {
  packing::for_panels(dimension, [&](auto panels) {
    constexpr int kPanels = panels;
    const auto kernel =
        pass.tau > 0 ? search_pass_kernel<kPanels, true> : search_pass_kernel<kPanels, false>;
    const int64_t blocks =
        (pass.count + block_latents_for(kPanels) - 1) / block_latents_for(kPanels);
    const dim3 grid(static_cast<unsigned>(blocks), static_cast<unsigned>(pass.splits));
    launch_with_ring(kernel, pass, grid, kPanels, shared_limit, kBoardBytes, stream);
  });
}

}  // namespace nsvq::sm80
