// Reranks the candidates of the first pass by fp64 distances and completes its sums; latents whose
// lists were too short join crowds.
#include <c10/cuda/CUDAException.h>

#include "nsvq/ops/code_search/crowds/join_crowd.cuh"
#include "nsvq/ops/code_search/hopper/fp32_filter.cuh"

namespace nsvq {

namespace {

constexpr int kWarps = 8;

/// A warp's codes that wait for their distances, which are computed 32 at a time.
struct Queue {
  int32_t codes[64];
};

/// The nearest of the candidates. If only one is left, the whole warp computes its distance.
template <int kPanels>
__device__ Nearest nearest_of(const Problem& problem, const Candidates<kPanels>& candidates,
                              Queue& queue) {
  const int64_t d = problem.dimension;
  const int lane = threadIdx.x % 32;
  Finalists<kPanels> finalists(problem, candidates.row);
  int waiting = 0, seen = 0;
  candidates.each([&](const Candidate& one) {
    const bool hopeful = candidates.hopeful(one);
    const uint32_t votes = __ballot_sync(~0u, hopeful);
    if (hopeful) queue.codes[waiting + __popc(votes & ((1u << lane) - 1))] = one.code;
    waiting += __popc(votes);
    seen += __popc(votes);
    __syncwarp();
    if (waiting < 32) return;
    finalists.add(queue.codes, 32);
    const int32_t rest = queue.codes[32 + lane];
    __syncwarp();
    queue.codes[lane] = rest;
    waiting -= 32;
    __syncwarp();
  });
  if (seen == 1) {
    const int64_t code = queue.codes[0];
    return {shared_distance(finalists.latent, problem.codes.values + code * d, d), code};
  }
  if (waiting > 0) finalists.add(queue.codes, waiting);
  finalists.settle();
  return nearest_of_warp(finalists.best);
}

/// Writes the results of a latent that has no nearest code.
__device__ void write_nothing(const Results& results, int64_t row) {
  const float nan = __int_as_float(0x7fc00000);
  results.indices[row] = -1;
  results.distances[row] = nan;
  if (!results.losses) return;
  results.losses[row] = nan;
  results.denominators[row] = nan;
}

/// The highest floor of all splits, and the highest of those that closed their list.
struct Floors {
  float best, closed;
};

__device__ Floors floors_of(const SearchPass& pass, int64_t row) {
  Floors floors{-1e38f, kNothing};
  for (int i = threadIdx.x % 32; i < pass.splits; i += 32) {
    const Partial part = pass.partials[row * pass.splits + i];
    floors.best = fmaxf(floors.best, part.floor);
    if (part.closed()) floors.closed = fmaxf(floors.closed, part.floor);
  }
  for (int step = 16; step > 0; step /= 2) {
    floors.best = fmaxf(floors.best, __shfl_xor_sync(~0u, floors.best, step));
    floors.closed = fmaxf(floors.closed, __shfl_xor_sync(~0u, floors.closed, step));
  }
  return floors;
}

/// Whether the nearest code may be one that a closed list left to the sums: those have scores of at
/// most the floor of their split + the reach of their tile. True too where the sums themselves may
/// have left the range of fp32.
template <int kPanels>
__device__ bool may_be_unlisted(const Candidates<kPanels>& candidates, const Floors& floors) {
  if (floors.closed == kNothing) return false;
  const float reach = candidates.reach();
  return floors.closed + reach >= floors.best || (candidates.pass.tau > 0 && reach > kMostReach);
}

/// Finishes a latent or adds it to a crowd, by a warp.
template <int kPanels>
__device__ void rerank(const Problem& problem, int64_t index, Queue& queue) {
  const SearchPass& pass = problem.pass;
  const int lane = threadIdx.x % 32;
  const Unit unit = unit_of(pass.range, pass.tau);
  const Row row = pass.rows[index];
  if (!unit.finite || !row.finite) {
    if (lane == 0) {
      write_nothing(problem.results, index);
      problem.crowds.centre_of[index] = -1;
    }
    return;
  }
  const Floors floors = floors_of(pass, index);
  const Candidates<kPanels> candidates{pass, index, slack_of<kPanels>(row, unit.rate), floors.best,
                                       unit.rate};
  if (may_be_unlisted(candidates, floors)) {
    crowds::join<kPanels>(problem, candidates, unit);
    return;
  }
  if (lane == 0) problem.crowds.centre_of[index] = -1;
  const Nearest winner = nearest_of(problem, candidates, queue);
  if (lane == 0) {
    problem.results.indices[index] = winner.code;
    problem.results.distances[index] = static_cast<float>(winner.distance);
  }
  if (problem.results.losses) complete_sums(problem, candidates, winner, row, unit);
}

template <int kPanels>
__global__ void __launch_bounds__(32 * kWarps, 4)
    rerank_kernel(const __grid_constant__ Problem problem) {
  const int64_t index = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  __shared__ Queue queues[kWarps];
  if (index < problem.pass.count) rerank<kPanels>(problem, index, queues[threadIdx.x / 32]);
}

}  // namespace

void rerank_candidates(const Problem& problem, cudaStream_t stream) {
  packing::for_panels(problem.dimension, [&](auto panels) {
    const auto blocks = static_cast<unsigned>((problem.pass.count + kWarps - 1) / kWarps);
    rerank_kernel<panels><<<blocks, 32 * kWarps, 0, stream>>>(problem);
  });
}

}  // namespace nsvq
