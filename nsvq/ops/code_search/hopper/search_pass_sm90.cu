// The first pass on Hopper: every latent against every code, tile by tile, with nothing of N x K
// left in memory.
//
// A score within the error bounds (tile_layout.h) of the best so far makes its code a candidate;
// all others go to the sums. Since the bound on the best score only rises, the nearest code is
// among the candidates. Since no candidate is in the sums, nothing has to be subtracted from them
// later: the winner's weight, which may be nearly all, never hides the others'. A latent near more
// codes than its list holds is left to crowds.h; then the winner may be in the sums, among many.

#include <c10/cuda/CUDAException.h>

#include <algorithm>

#include "nsvq/ops/code_search/hopper/search_epilogue.cuh"
#include "nsvq/ops/code_search/hopper/tile_sweep.cuh"

namespace nsvq {

namespace {

using sm90::kBlockLatents, sm90::stages_for;

#ifdef NSVQ_SM90A

using namespace sm90;

template <bool kSums>
__device__ void write_partial(const State& state, const SearchPass& pass, int64_t row, int split) {
  const float sum = kSums ? quad_sum(state.sum) : 0, moment = kSums ? quad_sum(state.moment) : 0;
  if (threadIdx.x % 4 == 0 && row < pass.count) {
    pass.partials[row * pass.splits + split] = {state.floor, sum, moment, state.places};
  }
}

/// The first pass of a warpgroup. kUneven: some tile of codes is uneven.
template <int kPanels, bool kSums, bool kUneven, int kStages>
__device__ void search(const SearchPass& pass, Barriers<kStages>& barriers, const uint8_t* resident,
                       Board* boards, const TileRange& range) {
  Lists lists{&pass, first_latent(), static_cast<int>(blockIdx.y)};
  const float rate = unit_of(pass.range, pass.tau).rate;
  State states[2][2];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int latent = lists.row + i / 2 * 64 + i % 2 * 8;
    states[i / 2][i % 2].slack =
        slack_of<kPanels>(latent < pass.count ? pass.rows[latent] : Row{}, rate);
  }
  Board& board = boards[threadIdx.x / 32];
  sweep_tiles<kPanels>(barriers, resident, range,
                       [&](auto& products, const uint8_t* tile, int t, auto half) {
                         if (half == 0) lists.grow(t - range.first);
                         search_epilogue<kSums, kUneven>(products, part_of<kPanels>(tile), 2 * rate,
                                                         t * tile_rows(kPanels), lists, half * 64,
                                                         board, states[half]);
                       });
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    write_partial<kSums>(states[i / 2][i % 2], pass, lists.row + i / 2 * 64 + i % 2 * 8,
                         lists.split);
  }
}

#endif  // NSVQ_SM90A

template <int kPanels, bool kSums>
__global__ void __launch_bounds__(sm90::kThreads, 1)
    search_pass_kernel(const __grid_constant__ SearchPass pass) {
#ifdef NSVQ_SM90A
  extern __shared__ uint8_t shared[];
  __shared__ Barriers<stages_for(kPanels)> barriers;
  uint8_t* resident = aligned(shared);
  if (threadIdx.x == 0) barriers.init();
  __syncthreads();
  const TileRange range(pass);
  if (threadIdx.x < kReaders) {
    take_registers();
    auto* boards = reinterpret_cast<Board*>(resident + sweep_bytes(kPanels) - 1024);
    // Two instances, so that a search without uneven tiles has none of the code for these in its
    // loop.
    if (pass.widest->uneven) {
      search<kPanels, kSums, true>(pass, barriers, resident, boards, range);
    } else {
      search<kPanels, kSums, false>(pass, barriers, resident, boards, range);
    }
  } else {
    give_registers();
    if (threadIdx.x == kReaders) copy_tiles<kPanels>(pass, barriers, resident, range);
  }
#endif
}

template <int kPanels, bool kSums>
void launch(const SearchPass& pass, cudaStream_t stream) {
  constexpr int kBytes =
      sm90::sweep_bytes(kPanels) + sm90::kReaders / 32 * static_cast<int>(sizeof(sm90::Board));
  const auto kernel = search_pass_kernel<kPanels, kSums>;
  C10_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
  const dim3 grid(static_cast<unsigned>((pass.count + kBlockLatents - 1) / kBlockLatents),
                  static_cast<unsigned>(pass.splits));
  kernel<<<grid, sm90::kThreads, kBytes, stream>>>(pass);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

template <int kPanels>
void launch(const SearchPass& pass, cudaStream_t stream) {
  if (pass.tau > 0) {
    launch<kPanels, true>(pass, stream);
  } else {
    launch<kPanels, false>(pass, stream);
  }
}

}  // namespace

bool has_matrix_kernels() {
  // Compiled for anything else the kernel is empty and has no barriers in shared memory.
  cudaFuncAttributes attributes;
  C10_CUDA_CHECK(cudaFuncGetAttributes(&attributes, search_pass_kernel<1, false>));
  return attributes.sharedSizeBytes > 0;
}

SearchPlan plan_search_pass(int64_t latents, int64_t codes, int64_t dimension, int processors,
                            int64_t block_latents) {
  const int64_t rows = tile_rows(panels_for(dimension));
  const int64_t tiles = (codes + rows - 1) / rows;
  const int64_t blocks = (latents + block_latents - 1) / block_latents;
  constexpr int64_t kStart = 4;  // what a block costs besides its tiles, in tiles
  int64_t best = 1, least = INT64_MAX;
  for (int64_t splits = 1; splits <= std::min<int64_t>(tiles, processors); ++splits) {
    const int64_t waves = (blocks * splits + processors - 1) / processors;
    const int64_t time = waves * ((tiles + splits - 1) / splits + kStart);
    if (time < least) {
      least = time;
      best = splits;
    }
  }
  // Longer lists take longer to fill and to measure; shorter ones would send latents that are near
  // a few dozen codes to crowds.h, nearly each to a crowd of its own.
  return {static_cast<int>(best), static_cast<int>(std::max<int64_t>(256 / best, 32))};
}

void run_search_pass(const SearchPass& pass, int64_t dimension, cudaStream_t stream) {
  const int panels = panels_for(dimension);
  if (panels == 1) launch<1>(pass, stream);
  if (panels == 2) launch<2>(pass, stream);
  if (panels == 4) launch<4>(pass, stream);
}

}  // namespace nsvq
