#include <algorithm>

#include "nsvq/ops/code_search/crowds/exact_scan.cuh"
#include "nsvq/ops/code_search/hopper/latent_candidates.cuh"
#include "nsvq/ops/code_search/hopper/pack_rows.cuh"

namespace nsvq {

namespace {

using scans::kRows;
using scans::kThreads;

constexpr int64_t kMostBlocks = 1024;
constexpr int kWarps = kThreads / 32;
static_assert(kWarps <= kRows);

/// The nearest of a latent's hits; none (-1) if there were more than its list holds.
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

/// Writes loss and denominator of a latent by the sums of the first pass, by a warp. False: these
/// do not give them.
template <int kPanels>
__device__ bool complete(const Problem& problem, int64_t latent, const Nearest& winner) {
  if (winner.code < 0) return false;
  const SearchPass& pass = problem.pass;
  const Unit unit = unit_of(pass.range, pass.tau);
  const Row row = pass.rows[latent];
  const Candidates<kPanels> candidates{pass, latent, slack_of<kPanels>(row, unit.rate), 0,
                                       unit.rate};
  return candidates.reach() <= kMostReach && complete_sums(problem, candidates, winner, row, unit);
}

/// Latents of a block, one per warp at most, that are to be compared with every code.
struct Left {
  int32_t latents[kRows];
  int warps[kRows];
  int count;

  __device__ void clear() {
    __syncthreads();
    if (threadIdx.x == 0) count = 0;
    __syncthreads();
  }
  /// Called by every thread: whether there are any.
  __device__ bool collect(bool own, int32_t latent) {
    if (own && threadIdx.x % 32 == 0) {
      const int place = atomicAdd(&count, 1);
      latents[place] = latent;
      warps[place] = static_cast<int>(threadIdx.x / 32);
    }
    __syncthreads();
    return count > 0;
  }
  __device__ scans::Group group() const { return {latents, count}; }
};

/// Finishes the latents in crowds, of which there are usually none. How many hits a latent has
/// depends on the order of blocks, so the way without hits must give equal results: the nearest
/// code is the nearest either way, and sums are those of the first pass wherever these give them.
template <int kPanels>
__global__ void __launch_bounds__(kThreads, 4)
    finish_kernel(const __grid_constant__ Problem problem, float rate) {
  extern __shared__ __align__(16) float values[];
  __shared__ Left left;
  __shared__ Nearest winners[kWarps], nearest[kRows];
  __shared__ scans::Sums sums[kRows];
  const scans::Scan scan{problem.latents, problem.codes, problem.dimension};
  const Results& results = problem.results;
  const int warp = static_cast<int>(threadIdx.x) / 32, r = static_cast<int>(threadIdx.x);
  const int count = problem.crowds.counts[0];
  for (int64_t first = int64_t{blockIdx.x} * kWarps; first < count;
       first += int64_t{gridDim.x} * kWarps) {
    const bool there = first + warp < count;
    const int32_t latent = there ? problem.crowds.latents[first + warp] : 0;
    Nearest winner{0, -1};
    if (there) winner = nearest_hit(problem, latent);
    left.clear();
    if (left.collect(there && winner.code < 0, latent)) {
      left.group().load(scan, values);
      scans::find_nearest(scan, values, left.count, nearest);
      if (r < left.count) winners[left.warps[r]] = nearest[r];
      __syncthreads();
      if (there && winner.code < 0) winner = winners[warp];
    }
    if (there && threadIdx.x % 32 == 0) {
      scans::write_nearest(winner, problem.pass.range, results, latent);
    }
    if (!results.losses) continue;
    left.clear();
    if (left.collect(there && !complete<kPanels>(problem, latent, winner), latent)) {
      left.group().load(scan, values);
      scans::find_sums(scan, left.group(), values, rate, results, sums);
      if (r < left.count) scans::write_sums(sums[r], results, left.latents[r]);
    }
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
