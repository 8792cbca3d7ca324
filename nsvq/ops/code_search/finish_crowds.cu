#include <algorithm>

#include "nsvq/ops/code_search/exact_scan.cuh"
#include "nsvq/ops/code_search/latent_candidates.cuh"
#include "nsvq/ops/code_search/pack_rows.cuh"

namespace nsvq {

namespace {

using scans::kRows;
using scans::kThreads;

constexpr int64_t kMostBlocks = 1024;
constexpr int kWarps = kThreads / 32;
static_assert(kWarps <= kRows);

/// The nearest of a latent's hits; none (-1) if these are not all there.
__device__ Nearest nearest_hit(const Problem& problem, int64_t latent) {
  const Crowds& crowds = problem.crowds;
  const int64_t d = problem.dimension;
  const int count = crowds.hit_counts[latent];
  Nearest best{0, -1};
  if (count > kMostHits) return best;
  const float floor = __int_as_float(crowds.floors[latent]);
  for (int i = threadIdx.x % 32; i < count; i += 32) {
    const Candidate hit = crowds.hits[latent * kMostHits + i];
    if (hit.score < floor) continue;
    const Nearest other{
        exact_distance(problem.latents.values + latent * d, problem.codes.values + hit.code * d, d),
        hit.code};
    if (wins(other, best)) best = other;
  }
  return nearest_of_warp(best);
}

/// Results of a latent by its hits, by a warp. False: not found.
template <int kPanels>
__device__ bool finish(const Problem& problem, int64_t latent) {
  const SearchPass& pass = problem.pass;
  const Nearest winner = nearest_hit(problem, latent);
  if (winner.code < 0) return false;
  if (threadIdx.x % 32 == 0) {
    problem.results.indices[latent] = winner.code;
    problem.results.distances[latent] = static_cast<float>(winner.distance);
  }
  if (!problem.results.losses) return true;
  const Unit unit = unit_of(pass.range, pass.tau);
  const Row row = pass.rows[latent];
  const Candidates<kPanels> candidates{pass, latent, slack_of<kPanels>(row, unit.rate), 0,
                                       unit.rate};
  return candidates.reach() <= kMostReach && complete_sums(problem, candidates, winner, row, unit);
}

/// As a rule there are no latents in crowds. What hits do not decide is compared with every code.
template <int kPanels>
__global__ void __launch_bounds__(kThreads, 4)
    finish_kernel(const __grid_constant__ Problem problem, float rate) {
  extern __shared__ __align__(16) float latents[];
  __shared__ int32_t left[kRows];
  __shared__ int left_count;
  const int count = problem.crowds.counts[0];
  for (int64_t first = int64_t{blockIdx.x} * kWarps; first < count;
       first += int64_t{gridDim.x} * kWarps) {
    __syncthreads();
    if (threadIdx.x == 0) left_count = 0;
    __syncthreads();
    const int64_t place = first + threadIdx.x / 32;
    if (place < count) {
      const int32_t latent = problem.crowds.latents[place];
      const bool done = finish<kPanels>(problem, latent);
      if (!done && threadIdx.x % 32 == 0) left[atomicAdd(&left_count, 1)] = latent;
    }
    __syncthreads();
    if (left_count == 0) continue;
    const scans::Group group{left, left_count};
    scans::scan({problem.latents, problem.codes, problem.dimension}, group, rate,
                problem.pass.range, problem.results, latents);
  }
}

float rate_for(double tau) {
  return tau > 0 ? static_cast<float>(std::min(1.4426950408889634 / tau, 1e30)) : 0.0f;
}

}  // namespace

void finish_crowds(const Problem& problem, cudaStream_t stream) {
  packing::for_panels(problem.dimension, [&](auto panels) {
    const int64_t groups = (problem.latents.rows + kWarps - 1) / kWarps;
    const auto blocks = static_cast<unsigned>(std::min(groups, kMostBlocks));
    const size_t shared_bytes = kRows * problem.dimension * sizeof(float);
    finish_kernel<panels>
        <<<blocks, kThreads, shared_bytes, stream>>>(problem, rate_for(problem.pass.tau));
  });
}

}  // namespace nsvq
