#pragma once

#include <algorithm>
#include <cstdint>
#include <numbers>

#include "nsvq/ops/code_search/cpu/code_panels_cpu.h"
#include "nsvq/ops/code_search/cpu/row_search_cpu.h"

namespace nsvq {

/// Latents of one task: their scores with the codes of a piece follow from strips that stay in the
/// first cache.
constexpr int64_t kTaskRows = 3 * kStrip;

/// A search of latents [N, d] through a codebook [K, d], both fp32, finite and with squares that
/// fp32 can hold.
struct Sweep {
  const float* latents;
  const std::vector<double>& norms;  ///< of the latents
  const float* codebook;
  const CodePanels& panels;
  float rate;  ///< log2(e) / tau, or 0 for the search alone
};

/// Finite, so that equal scores still differ by 0 times it.
inline float rate_of(double tau) {
  return static_cast<float>(std::min(std::numbers::log2e / tau, 1e30));
}

/// Weights of latents, [panels, latents, 16], and the scores they refer to, [pieces, latents];
/// `latents` is the number of latents that fit.
struct KeptWeights {
  float* weights;
  float* references;
  int64_t latents;
};

/// Computes results [end - begin] of the latents from `begin` to `end`. Their weights become the
/// first ones of `kept`, unless it is null.
void sweep_rows(const Sweep& sweep, int64_t begin, int64_t end, RowResult* results,
                const KeptWeights* kept);

/// Throws if the largest norm of either is not finite.
void check_finite(const char* name, double latents_norm, double codebook_norm);

/// Whether fp32 holds squares of numbers with these norms.
bool squares_fit(double latents_norm, double codebook_norm);

}  // namespace nsvq
