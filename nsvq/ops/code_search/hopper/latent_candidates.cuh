// The candidates of a latent after the first pass, read by the warp that finishes the latent.
#pragma once

#include "nsvq/ops/code_search/crowds/crowds.h"
#include "nsvq/ops/code_search/exact_distance.cuh"
#include "nsvq/ops/code_search/hopper/error_bounds.cuh"

namespace nsvq {

__device__ inline double warp_sum(double value) {
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(~0u, value, step);
  return value;
}

/// The squared distance of a latent to a code in fp64, by the whole warp: its last digits may
/// differ from those of exact_distance.
__device__ inline double shared_distance(const float* latent, const float* code, int64_t d) {
  double sum = 0;
  for (int64_t k = threadIdx.x % 32; k < d; k += 32) {
    const double difference = static_cast<double>(latent[k]) - code[k];
    sum += difference * difference;
  }
  return warp_sum(sum);
}

/// The nearest of those that the lanes of a warp have found.
__device__ inline Nearest nearest_of_warp(Nearest best) {
  for (int step = 16; step > 0; step /= 2) {
    const Nearest other{__shfl_xor_sync(~0u, best.distance, step),
                        __shfl_xor_sync(~0u, best.code, step)};
    if (wins(other, best)) best = other;
  }
  return best;
}

template <int kPanels>
struct Candidates {
  const SearchPass& pass;
  int64_t row;
  Slack slack;
  float floor, rate;

  /// Calls visit(candidate) for the lane's share of all candidates. All lanes call it equally
  /// often, with code -1 where there is none.
  template <typename Visit>
  __device__ void each(Visit visit) const {
    for (int split = 0; split < pass.splits; ++split) {
      const int64_t list = row * pass.splits + split;
      const int count = pass.partials[list].count();
      for (int first = 0; first < count; first += 32) {
        const int i = first + threadIdx.x % 32;
        visit(i < count ? pass.candidates[list * pass.capacity + i] : Candidate{-1, kNothing});
      }
    }
  }

  /// Calls visit(candidate) as `each` does, for the first 32 of each list.
  template <typename Visit>
  __device__ void first_of_each(Visit visit) const {
    for (int split = 0; split < pass.splits; ++split) {
      const int64_t list = row * pass.splits + split;
      const int i = threadIdx.x % 32, count = pass.partials[list].count();
      visit(i < count ? pass.candidates[list * pass.capacity + i] : Candidate{-1, kNothing});
    }
  }

  /// Whether the candidate is still within the error bounds of the best.
  __device__ bool hopeful(const Candidate& one) const {
    if (one.code < 0) return false;
    return one.score >= floor - slack_for<kPanels>(pass.codes, one.code, slack, rate);
  }

  /// How far the score of a code that a closed list left to the sums may lie above the list's
  /// floor.
  __device__ float reach() const { return slack.of(*pass.widest); }
};

/// Writes loss and denominator of a latent: the sums of all splits and of the candidates that did
/// not win, relative to the winner's score by its exact distance. A winner that is on no list is in
/// the sums, and is subtracted from them: with an error as each other code has, so not if there are
/// few of these. False: this cannot be done.
template <int kPanels>
__device__ bool complete_sums(const Problem& problem, const Candidates<kPanels>& candidates,
                              const Nearest& winner, const Row& row, const Unit& unit) {
  constexpr double kMany = 16;
  const SearchPass& pass = problem.pass;
  const double square = static_cast<double>(unit.scale) * unit.scale;
  const auto score = static_cast<float>(unit.rate * (row.square - winner.distance * square));
  double sum = 0, moment = 0;
  const auto add = [&](float x, float weight, float weighted) {
    x = fminf(x, 0.0f);  // only errors of scores put it above 0
    const float e = exp2f(x);
    if (!(e > 0 && weight > 0)) return;
    sum += static_cast<double>(e) * weight;
    moment += static_cast<double>(e) * (weighted + static_cast<double>(x) * weight);
  };
  for (int i = threadIdx.x % 32; i < pass.splits; i += 32) {
    const Partial part = pass.partials[candidates.row * pass.splits + i];
    add(part.floor - score, part.sum, part.moment);
  }
  bool listed = false;
  candidates.each([&](const Candidate& one) {
    if (one.code >= 0 && one.code != winner.code) add(one.score - score, 1, 0);
    listed |= one.code == winner.code;
  });
  sum = warp_sum(sum);
  moment = warp_sum(moment);
  if (!__any_sync(~0u, listed)) {
    sum -= 1;
    if (!(sum >= kMany)) return false;
  }
  if (threadIdx.x % 32 > 0) return true;
  const double loss = winner.distance * sum - moment / (unit.rate * square);
  problem.results.losses[candidates.row] = static_cast<float>(loss / (1 + sum));
  problem.results.denominators[candidates.row] = static_cast<float>(1 + sum);
  return true;
}

}  // namespace nsvq
