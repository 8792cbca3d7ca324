// Marks the codes that may be nearest to latents in crowds (crowds.h): computes the products of the
// first pass again, now that a latent's best score is known, and marks the codes that come within
// the error bounds of it.
#include <c10/cuda/CUDAException.h>

#include "nsvq/ops/code_search/crowds/crowds.h"
#include "nsvq/ops/code_search/hopper/pack_rows.cuh"
#include "nsvq/ops/code_search/hopper/search_epilogue.cuh"
#include "nsvq/ops/code_search/hopper/tile_sweep.cuh"

namespace nsvq {

namespace {

#ifdef NSVQ_SM90A

using namespace sm90;

/// One of the thread's latents. Its floor is above all scores if there is nothing to mark.
struct Marker {
  float floor = 1e38f;
  Slack slack{0, 0};
  uint32_t* marks = nullptr;  ///< its crowd's word for the first 32 codes

  /// Marks codes in the word `offset` words further on. Usually another latent of the crowd has
  /// marked them already.
  __device__ void add(int64_t offset, uint32_t bits) const {
    uint32_t* word = marks + offset;
    if (bits & ~__ldcg(word)) atomicOr(word, bits);
  }
};

template <int kPanels>
__device__ Marker marker_of(const Problem& problem, int64_t latent, float rate) {
  const Crowds& crowds = problem.crowds;
  if (latent >= problem.pass.count) return {};
  const int32_t centre = crowds.centre_of[latent];
  if (centre < 0 || crowds.places[centre] >= crowds.marked) return {};
  return {crowds.scores[latent], slack_of<kPanels>(problem.pass.rows[latent], rate),
          crowds.marks + crowds.places[centre]};
}

/// Marks codes of a tile for the thread's two latents, 8 rows apart. Each lane of a quad writes one
/// word of marks (with tiles of 64 rows only the first two lanes do).
template <int kPanels, int kCount>
__device__ void mark_tile(float (&scores)[kCount], const uint8_t* tile, float twice_rate, int t,
                          const Marker (&markers)[2], int marked) {
  constexpr int kWords = tile_rows(kPanels) / 32;
  const auto* bias = reinterpret_cast<const float*>(tile + body_bytes(kPanels));
  const Header& header = *reinterpret_cast<const Header*>(bias + tile_rows(kPanels));
  float top[2];
  score(scores, bias, twice_rate, top);
  const float limits[2] = {markers[0].floor - markers[0].slack.of(header),
                           markers[1].floor - markers[1].slack.of(header)};
  if (!__any_sync(~0u, top[0] >= limits[0] || top[1] >= limits[1])) return;
  const int place = threadIdx.x % 4;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    uint32_t own = 0;
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      uint32_t bits = 0;  // two codes in each eight are the lane's
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        if (scores[16 * w + i / 2 * 4 + 2 * r + i % 2] >= limits[r]) {
          bits |= 1u << (i / 2 * 8 + i % 2);
        }
      }
      bits <<= 2 * place;
      bits |= __shfl_xor_sync(~0u, bits, 1);
      bits |= __shfl_xor_sync(~0u, bits, 2);
      if (place == w) own = bits;
    }
    if (own && markers[r].marks) markers[r].add((int64_t{t} * kWords + place) * marked, own);
  }
}

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
        mark_tile<kPanels>(products, tile, 2 * rate, t, markers[half], problem.crowds.marked);
      });
}

/// Whether a latent of the block is in a crowd.
__device__ bool has_crowd(const Problem& problem) {
  const int64_t latent = int64_t{blockIdx.x} * kBlockLatents + threadIdx.x;
  return __syncthreads_or(threadIdx.x < kBlockLatents && latent < problem.pass.count &&
                          problem.crowds.centre_of[latent] >= 0);
}

#endif  // NSVQ_SM90A

template <int kPanels>
__global__ void __launch_bounds__(sm90::kThreads, 1)
    mark_kernel(const __grid_constant__ Problem problem) {
#ifdef NSVQ_SM90A
  if (!problem.crowds.are_marked() || !has_crowd(problem)) return;
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
