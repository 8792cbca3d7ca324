// Marks the codes that may be nearest to latents in crowds (crowds.h): computes the products of the
// first pass again, now that a latent's best score is known, and marks the codes that come within
// the error bounds of it.
#include <c10/cuda/CUDAException.h>

#include "nsvq/ops/code_search/crowds/mark_part.cuh"
#include "nsvq/ops/code_search/hopper/pack_rows.cuh"
#include "nsvq/ops/code_search/hopper/tile_sweep.cuh"

namespace nsvq {

namespace {

#ifdef NSVQ_SM90A

using namespace sm90;

template <int kPanels, int kStages>
__device__ void mark(const Problem& problem, Barriers<kStages>& barriers, const uint8_t* resident,
                     const TileRange& range) {
  const float rate = unit_of(problem.pass.range, problem.pass.tau).rate;
  Marker markers[2][2];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    markers[i / 2][i % 2] =
        marker_of<kPanels>(problem, first_latent() + i / 2 * 64 + i % 2 * 8, rate);
  }
  sweep_tiles<kPanels>(
      barriers, resident, range, [&](auto& products, const uint8_t* tile, int t, auto half) {
        mark_part(products, part_of<kPanels>(tile), 2 * rate, int64_t{t} * tile_rows(kPanels),
                  markers[half], problem.crowds.marked);
      });
}

#endif  // NSVQ_SM90A

template <int kPanels>
__global__ void __launch_bounds__(sm90::kThreads, 1)
    mark_kernel(const __grid_constant__ Problem problem) {
#ifdef NSVQ_SM90A
  if (!problem.crowds.are_marked() || !has_crowd(problem, kBlockLatents)) return;
  extern __shared__ uint8_t shared[];
  __shared__ Barriers<stages_for(kPanels)> barriers;
  uint8_t* resident = aligned(shared);
  if (threadIdx.x == 0) barriers.init();
  __syncthreads();
  const TileRange range(problem.pass);
  if (threadIdx.x < kReaders) {
    take_registers();
    mark<kPanels>(problem, barriers, resident, range);
  } else {
    give_registers();
    if (threadIdx.x == kReaders) copy_tiles<kPanels>(problem.pass, barriers, resident, range);
  }
#endif
}

template <int kPanels>
void launch(const Problem& problem, cudaStream_t stream) {
  constexpr int kBytes = sm90::sweep_bytes(kPanels);
  const auto kernel = mark_kernel<kPanels>;
  C10_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
  const int64_t blocks = (problem.pass.count + sm90::kBlockLatents - 1) / sm90::kBlockLatents;
  const dim3 grid(static_cast<unsigned>(blocks), static_cast<unsigned>(problem.pass.splits));
  kernel<<<grid, sm90::kThreads, kBytes, stream>>>(problem);
}

}  // namespace

void mark_crowds(const Problem& problem, cudaStream_t stream) {
  packing::for_panels(problem.dimension, [&](auto panels) { launch<panels>(problem, stream); });
}

}  // namespace nsvq
