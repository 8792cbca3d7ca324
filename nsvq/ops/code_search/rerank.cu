// Reranks the candidates of the first pass by fp64 distances and completes its sums.
#include <c10/cuda/CUDAException.h>

#include "nsvq/ops/code_search/error_bounds.cuh"
#include "nsvq/ops/code_search/exact_distance.cuh"

namespace nsvq {

namespace {

constexpr int kWarps = 8;

__device__ double warp_sum(double value) {
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(~0u, value, step);
  return value;
}

struct Problem {
  SearchPass pass;
  Matrix latents, codes;
  int64_t dimension;
  Results results;
  int32_t* missing;
};

/// The candidates of a latent, seen by the warp that has it.
template <int kPanels>
struct Candidates {
  const SearchPass& pass;
  int64_t row;
  Slack slack;
  float floor, rate;

  /// Calls visit(candidate) for the lane's share of all, in an order of its own; every lane takes
  /// part in each step.
  template <typename Visit>
  __device__ void each(Visit visit) const {
    for (int split = 0; split < pass.splits; ++split) {
      const int64_t list = row * pass.splits + split;
      const int count = pass.partials[list].count;
      for (int first = 0; first < count; first += 32) {
        const int i = first + threadIdx.x % 32;
        visit(i < count ? pass.candidates[list * pass.capacity + i] : Candidate{-1, kNothing});
      }
    }
  }

  /// Whether the candidate is still within the error bounds of the best.
  __device__ bool hopeful(const Candidate& one) const {
    if (one.code < 0) return false;
    return one.score >= floor - slack_for<kPanels>(pass.codes, one.code, slack, rate);
  }
};

/// The nearest of the candidates. Where just one can be it, the warp shares its distance.
template <int kPanels>
__device__ Nearest nearest_of(const Problem& problem, const Candidates<kPanels>& candidates) {
  const int64_t d = problem.dimension;
  const float* latent = problem.latents.values + candidates.row * d;
  int hopeful = 0, last = -1;
  candidates.each([&](const Candidate& one) {
    const uint32_t votes = __ballot_sync(~0u, candidates.hopeful(one));
    if (votes) last = __shfl_sync(~0u, one.code, __ffs(votes) - 1);
    hopeful += __popc(votes);
  });
  if (hopeful == 1) {
    double sum = 0;
    const float* code = problem.codes.values + last * d;
    for (int64_t k = threadIdx.x % 32; k < d; k += 32) {
      const double difference = static_cast<double>(latent[k]) - code[k];
      sum += difference * difference;
    }
    return {warp_sum(sum), last};
  }
  Nearest best{0, -1};
  candidates.each([&](const Candidate& one) {
    if (!candidates.hopeful(one)) return;
    const Nearest other{exact_distance(latent, problem.codes.values + one.code * d, d), one.code};
    if (wins(other, best)) best = other;
  });
  for (int step = 16; step > 0; step /= 2) {
    const Nearest other{__shfl_xor_sync(~0u, best.distance, step),
                        __shfl_xor_sync(~0u, best.code, step)};
    if (wins(other, best)) best = other;
  }
  return best;
}

/// Loss and denominator of a latent: the sums of all parts and of the candidates that did not win,
/// relative to the winner's score by its exact distance.
template <int kPanels>
__device__ void complete_sums(const Problem& problem, const Candidates<kPanels>& candidates,
                              const Nearest& winner, const Row& row, const Unit& unit) {
  const SearchPass& pass = problem.pass;
  const double square = static_cast<double>(unit.scale) * unit.scale;
  const auto score = static_cast<float>(unit.rate * (row.square - winner.distance * square));
  double sum = 0, moment = 0;
  const auto add = [&](float x, float weight, float weighted) {
    x = fminf(x, 0.0f);  // above it by rounding alone
    const float e = exp2f(x);
    if (!(e > 0 && weight > 0)) return;
    sum += static_cast<double>(e) * weight;
    moment += static_cast<double>(e) * (weighted + static_cast<double>(x) * weight);
  };
  for (int i = threadIdx.x % 32; i < pass.splits; i += 32) {
    const Partial part = pass.partials[candidates.row * pass.splits + i];
    add(part.floor - score, part.sum, part.moment);
  }
  candidates.each([&](const Candidate& one) {
    if (one.code >= 0 && one.code != winner.code) add(one.score - score, 1, 0);
  });
  sum = warp_sum(sum);
  moment = warp_sum(moment);
  if (threadIdx.x % 32 > 0) return;
  const double loss = winner.distance * sum - moment / (unit.rate * square);
  problem.results.losses[candidates.row] = static_cast<float>(loss / (1 + sum));
  problem.results.denominators[candidates.row] = static_cast<float>(1 + sum);
}

/// Results of a latent that has no nearest code.
__device__ void write_nothing(const Results& results, int64_t row) {
  const float nan = __int_as_float(0x7fc00000);
  results.indices[row] = -1;
  results.distances[row] = nan;
  if (!results.losses) return;
  results.losses[row] = nan;
  results.denominators[row] = nan;
}

template <int kPanels>
__global__ void __launch_bounds__(32 * kWarps, 2)
    rerank_kernel(const __grid_constant__ Problem problem) {
  const SearchPass& pass = problem.pass;
  const int64_t index = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  if (index >= pass.count) return;
  const Unit unit = unit_of(pass.range, pass.tau);
  const Row row = pass.rows[index];
  if (!unit.finite || !row.finite) {
    if (lane == 0) write_nothing(problem.results, index);
    return;
  }
  float floor = -1e38f;
  bool overflow = false;
  for (int i = lane; i < pass.splits; i += 32) {
    const Partial part = pass.partials[index * pass.splits + i];
    floor = fmaxf(floor, part.floor);
    overflow |= part.count > pass.capacity;
  }
  for (int step = 16; step > 0; step /= 2) floor = fmaxf(floor, __shfl_xor_sync(~0u, floor, step));
  if (__any_sync(~0u, overflow)) {
    if (lane == 0) {
      problem.missing[1 + atomicAdd(problem.missing, 1)] = static_cast<int32_t>(index);
    }
    return;
  }
  const Candidates<kPanels> candidates{pass, index, slack_of<kPanels>(row, unit.rate), floor,
                                       unit.rate};
  const Nearest winner = nearest_of(problem, candidates);
  if (lane == 0) {
    problem.results.indices[index] = winner.code;
    problem.results.distances[index] = static_cast<float>(winner.distance);
  }
  if (problem.results.losses) complete_sums(problem, candidates, winner, row, unit);
}

}  // namespace

void rerank_candidates(const SearchPass& pass, Matrix latents, Matrix codes, int64_t dimension,
                       Results results, int32_t* missing, cudaStream_t stream) {
  const Problem problem{pass, latents, codes, dimension, results, missing};
  const auto blocks = static_cast<unsigned>((pass.count + kWarps - 1) / kWarps);
  const int panels = panels_for(dimension);
  if (panels == 1) rerank_kernel<1><<<blocks, 32 * kWarps, 0, stream>>>(problem);
  if (panels == 2) rerank_kernel<2><<<blocks, 32 * kWarps, 0, stream>>>(problem);
  if (panels == 4) rerank_kernel<4><<<blocks, 32 * kWarps, 0, stream>>>(problem);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

}  // namespace nsvq
