// The first pass on Hopper: every latent against every code, tile by tile, with nothing of N x K
// left in memory.
//
// A block holds 256 latents and streams a range of the codes through a ring of tiles. Each of its
// two warpgroups has 128 latents as two halves of 64 with a product each, so that one half's
// product is under way while the other's scores are read. A latent's scores lie in the four threads
// of a quad.
//
// A score within the error bounds (tile_layout.h) of the best so far makes its code a candidate;
// all others go to the sums. Since the bound on the best score only rises, the nearest code is
// among the candidates, and since no candidate is in the sums, nothing need be taken out of them
// later: the winner's weight, which may be all there is, never hides the others'. A latent near
// more codes than its list holds is left to crowds.h; then the winner may be in the sums, among
// many.

#include <c10/cuda/CUDAException.h>

#include <algorithm>

#include "nsvq/ops/code_search/search_epilogue.cuh"

namespace nsvq {

namespace {

constexpr int kBlockLatents = 256;
__host__ __device__ constexpr int stages_for(int panels) { return panels <= 2 ? 4 : 2; }

#ifdef NSVQ_SM90A

using namespace sm90;

template <bool kSums>
__device__ void write_partial(const State& state, const SearchPass& pass, int64_t row, int split) {
  const float sum = kSums ? quad_sum(state.sum) : 0, moment = kSums ? quad_sum(state.moment) : 0;
  if (threadIdx.x % 4 == 0 && row < pass.count) {
    pass.partials[row * pass.splits + split] = {state.floor, sum, moment, state.places};
  }
}

/// The part of a warpgroup: 128 latents against the tiles [first, last) of the codes.
template <int kPanels, bool kSums, int kStages>
__device__ void search(const SearchPass& pass, Barriers<kStages>& barriers, uint8_t* resident,
                       uint8_t* ring, Board* boards, int first, int last) {
  constexpr int kRows = tile_rows(kPanels);
  const int group = threadIdx.x / 128, lane = threadIdx.x % 32;
  const int row = group * 128 + threadIdx.x % 128 / 32 * 16 + lane / 4;
  Lists lists{&pass, static_cast<int>(blockIdx.x) * kBlockLatents + row,
              static_cast<int>(blockIdx.y)};
  const float rate = unit_of(pass.range, pass.tau).rate;
  State states[2][2];
  uint32_t halves[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int at = group * 128 + h * 64;
    halves[h] = shared_address(resident) + at / kRows * body_bytes(kPanels) + at % kRows * 128;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int latent = lists.row + h * 64 + r * 8;
      states[h][r].slack = slack_of<kPanels>(latent < pass.count ? pass.rows[latent] : Row{}, rate);
    }
  }
  Board& board = boards[threadIdx.x / 32];
  float left[kRows / 2], right[kRows / 2];
  Place<kStages> place;
  const Turn turn(group);
  barrier_wait(&barriers.resident, 0);
  for (int t = first; t < last; ++t, place.advance()) {
    const uint8_t* tile = ring + place.stage * tile_bytes(kPanels);
    lists.grow(t - first);
    barrier_wait(&barriers.full[place.stage], place.round);
    turn.wait();
    multiply<kPanels>(left, halves[0], shared_address(tile));
    multiply<kPanels>(right, halves[1], shared_address(tile));
    mma_wait<1>();
    pin(left);
    turn.pass(t + 1 < last);
    search_epilogue<kPanels, kSums>(left, tile, 2 * rate, t * kRows, lists, 0, board, states[0]);
    mma_wait<0>();
    pin(right);
    search_epilogue<kPanels, kSums>(right, tile, 2 * rate, t * kRows, lists, 64, board, states[1]);
    __syncwarp();
    if (lane == 0) barrier_arrive(&barriers.empty[place.stage]);
  }
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
  constexpr int kStages = stages_for(kPanels), kTiles = kBlockLatents / tile_rows(kPanels);
  extern __shared__ uint8_t shared[];
  __shared__ Barriers<kStages> barriers;
  uint8_t* resident = aligned(shared);
  uint8_t* ring = resident + kTiles * body_bytes(kPanels);
  if (threadIdx.x == 0) barriers.init();
  __syncthreads();
  const auto first = static_cast<int>(int64_t{pass.code_tiles} * blockIdx.y / pass.splits);
  const auto last = static_cast<int>(int64_t{pass.code_tiles} * (blockIdx.y + 1) / pass.splits);
  if (threadIdx.x < kReaders) {
    take_registers();
    auto* boards = reinterpret_cast<Board*>(ring + kStages * tile_bytes(kPanels));
    search<kPanels, kSums>(pass, barriers, resident, ring, boards, first, last);
  } else {
    give_registers();
    if (threadIdx.x > kReaders) return;
    copies_begin(&barriers.resident, kTiles * body_bytes(kPanels));
    for (int i = 0; i < kTiles; ++i) {
      bulk_copy(resident + i * body_bytes(kPanels),
                pass.latents + (blockIdx.x * int64_t{kTiles} + i) * tile_bytes(kPanels),
                body_bytes(kPanels), &barriers.resident);
    }
    fill(barriers, ring, pass.codes + first * int64_t{tile_bytes(kPanels)}, last - first,
         tile_bytes(kPanels));
  }
#endif
}

template <int kPanels, bool kSums>
void launch(const SearchPass& pass, cudaStream_t stream) {
  constexpr int kBytes = 1024 + kBlockLatents / tile_rows(kPanels) * body_bytes(kPanels) +
                         stages_for(kPanels) * tile_bytes(kPanels) +
                         sm90::kReaders / 32 * sizeof(sm90::Board);
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

SearchPlan plan_search_pass(int64_t latents, int64_t codes, int64_t dimension, int processors) {
  const int64_t rows = tile_rows(panels_for(dimension));
  const int64_t tiles = (codes + rows - 1) / rows;
  const int64_t blocks = (latents + kBlockLatents - 1) / kBlockLatents;
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
  // Longer lists take longer to fill and to measure; shorter ones send latents to crowds.h that are
  // near some dozens of codes, each with another crowd.
  return {static_cast<int>(best), static_cast<int>(std::max<int64_t>(256 / best, 32))};
}

void run_search_pass(const SearchPass& pass, int64_t dimension, cudaStream_t stream) {
  const int panels = panels_for(dimension);
  if (panels == 1) launch<1>(pass, stream);
  if (panels == 2) launch<2>(pass, stream);
  if (panels == 4) launch<4>(pass, stream);
}

}  // namespace nsvq
