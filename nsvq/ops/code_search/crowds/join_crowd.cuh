// Adds latents to crowds (crowds.h).
#pragma once

#include "nsvq/ops/code_search/crowds/crowd_rows.cuh"
#include "nsvq/ops/code_search/hopper/latent_candidates.cuh"

namespace nsvq::crowds {

/// Two of a latent's codes, among the first 32 in each of its lists, which have them in the order
/// of tiles: `centre`, the hopeful one of lowest index, which latents near the same codes usually
/// share, and `best`, the one with the highest score.
struct Listed {
  int32_t centre, best;
};

template <int kPanels>
__device__ Listed choose_listed(const Candidates<kPanels>& candidates) {
  uint32_t lowest = ~0u;
  Candidate best{0, kNothing};
  candidates.first_of_each([&](const Candidate& one) {
    if (candidates.hopeful(one)) lowest = min(lowest, static_cast<uint32_t>(one.code));
    if (one.code >= 0 && one.score > best.score) best = one;
  });
  lowest = __reduce_min_sync(~0u, lowest);
  for (int step = 16; step > 0; step /= 2) {
    const Candidate other{__shfl_xor_sync(~0u, best.code, step),
                          __shfl_xor_sync(~0u, best.score, step)};
    if (other.score > best.score || (other.score == best.score && other.code < best.code)) {
      best = other;
    }
  }
  return {lowest == ~0u ? best.code : static_cast<int32_t>(lowest), best.code};
}

/// The score of the best listed code relative to the centre, rounded down.
__device__ inline float first_floor(double to_centre, double to_best, float scale) {
  const double square = static_cast<double>(scale) * scale;
  const double score = ((to_centre - to_best) - 1e-12 * (to_centre + to_best)) * square;
  return score > 0 && score < 1e30 ? static_cast<float>(score) * (1 - 0x1p-22f) : 0.0f;
}

/// Whether the codes within twice a latent's distance |z - m| of its centre may be most of all
/// codes: 2 |z - m| > 0.2 widest.norm. That norm is the largest of a centred code times its tile's
/// reach of 2.0 to 2.5, so the limit is 0.4 to 0.5 of the largest norm.
__device__ inline bool is_far(float limit, float scale, const WidestBounds& widest) {
  return limit * scale * scale > 0.04f * widest.norm * widest.norm;
}

/// Adds a latent to the crowd of its centre; returns the crowd's index if it is the first, else -1.
__device__ inline int add_to_crowd(const Crowds& crowds, int32_t latent, int32_t centre) {
  const int rank = atomicAdd(crowds.sizes + centre, 1);
  crowds.members[atomicAdd(crowds.counts, 1)] = {latent, centre, rank};
  if (rank > 0) return -1;
  const int place = atomicAdd(crowds.counts + 1, 1);
  crowds.centres[place] = centre;
  crowds.places[centre] = place;
  return place;
}

/// Adds a latent to the crowd of its centre, by a warp. Not inlined, since few latents need it.
template <int kPanels>
__device__ __noinline__ void join(const Problem& problem, Candidates<kPanels> candidates,
                                  Unit unit) {
  const Crowds& crowds = problem.crowds;
  const int64_t d = problem.dimension, latent = candidates.row;
  const Listed listed = choose_listed(candidates);
  const float* values = problem.latents.values + latent * d;
  const float* centre = problem.codes.values + listed.centre * d;
  packing::Lane<kPanels> own, other;
  own.load(values, d);
  other.load(centre, d);
  const Difference difference = pack_difference<kPanels>(
      own, other, unit.scale, crowds.rows + latent * (kPanels * kPanelColumns));
  const double to_centre = shared_distance(values, centre, d);
  const double to_best = shared_distance(values, problem.codes.values + listed.best * d, d);
  int place = -1;
  if (threadIdx.x % 32 == 0) {
    crowds.differences[latent] = difference;
    crowds.floors[latent] = __float_as_int(first_floor(to_centre, to_best, unit.scale));
    crowds.hit_counts[latent] = 0;
    // Enlarged for the rounding of sums in fp32; bits of numbers above zero compare as the numbers
    // do.
    const float limit = static_cast<float>(4 * to_centre) * 1.0002f + 1e-36f;
    atomicMax(crowds.limits + listed.centre, __float_as_int(limit));
    crowds.centre_of[latent] = listed.centre;
    crowds.scores[latent] = candidates.floor;
    if (is_far(limit, unit.scale, *problem.pass.widest)) atomicAdd(crowds.counts + 4, 1);
    place = add_to_crowd(crowds, static_cast<int32_t>(latent), listed.centre);
  }
  place = __shfl_sync(~0u, place, 0);
  if (place < 0 || place >= crowds.marked) return;
  for (int i = threadIdx.x % 32; i < crowds.words; i += 32) {
    crowds.marks[int64_t{i} * crowds.marked + place] = 0;
  }
}

}  // namespace nsvq::crowds
