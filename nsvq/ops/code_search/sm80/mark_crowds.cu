// Marks the codes that may be nearest to latents in crowds (crowds.h), by mma.sync: computes the
// products of the first pass again.
#include "nsvq/ops/code_search/crowds/mark_part.cuh"
#include "nsvq/ops/code_search/hopper/pack_rows.cuh"
#include "nsvq/ops/code_search/sm80/launch.cuh"
#include "nsvq/ops/code_search/sm80/sm80_passes.h"
#include "nsvq/ops/code_search/sm80/tile_sweep.cuh"

namespace nsvq::sm80 {

namespace {

using sm90::Marker;

template <int kPanels>
__device__ void mark(const Problem& problem, Ring<kPanels>& ring, int first_tile) {
  constexpr int kHalves = halves_for(kPanels);
  const float rate = unit_of(problem.pass.range, problem.pass.tau).rate;
  Marker markers[kHalves][2];
#pragma unroll
  for (int i = 0; i < 2 * kHalves; ++i) {
    markers[i / 2][i % 2] =
        sm90::marker_of<kPanels>(problem, first_latent<kPanels>() + 8 * i, rate);
  }
  read_tiles(problem.pass, ring, first_tile * tile_rows(kPanels),
             [&](auto& products, const Part& part, int first_code, auto half) {
               sm90::mark_part(products, part, 2 * rate, first_code, markers[half],
                               problem.crowds.marked);
             });
}

template <int kPanels>
__global__ void __launch_bounds__(kThreads, 1)
    mark_kernel(const __grid_constant__ Problem problem, int stages) {
  if (!problem.crowds.are_marked() || !sm90::has_crowd(problem, block_latents_for(kPanels))) return;
  extern __shared__ __align__(128) uint8_t shared[];
  sweep_tiles<kPanels>(problem.pass, shared, stages, [&](Ring<kPanels>& ring, int first_tile) {
    mark<kPanels>(problem, ring, first_tile);
  });
}

}  // namespace

void mark_crowds(const Problem& problem, int64_t shared_limit, cudaStream_t stream) {
  packing::for_panels(problem.dimension, [&](auto panels) {
    constexpr int kPanels = panels, kBlock = block_latents_for(kPanels);
    const dim3 grid(static_cast<unsigned>((problem.pass.count + kBlock - 1) / kBlock),
                    static_cast<unsigned>(problem.pass.splits));
    launch_with_ring(mark_kernel<kPanels>, problem, grid, kPanels, shared_limit, 0, stream);
  });
}

}  // namespace nsvq::sm80
