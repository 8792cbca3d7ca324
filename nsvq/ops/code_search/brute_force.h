// Search and NS loss by fp32 differences: for any dimension and GPU, and for the latents that the
// fast first pass leaves over.
#pragma once

#include "nsvq/ops/code_search/tile_layout.h"

namespace nsvq {

/// A code and its distance.
struct Nearest {
  double distance;
  int64_t code;  ///< -1: none
};

struct Sums {
  double weights, losses;
};

/// Latents against all codes. Parts are [N, splits]. `rows`: for scan_rest, the latents in question
/// ([0] is their number, known to the GPU alone), else null.
struct Scan {
  Matrix latents, codes;
  int64_t dimension;
  const int32_t* rows;
  int splits;
  Nearest* nearest;
  Sums* sums;
};

int scan_splits(int64_t latents, int64_t codes, int processors);

/// Indices and distances, exact; -1 and NaN for a latent that is not finite, or for all if a code
/// is not.
void scan_nearest(const Scan& scan, const ValueRange* range, Results results, cudaStream_t stream);

/// Losses and denominators for the indices and distances found.
void scan_sums(const Scan& scan, double tau, Results results, cudaStream_t stream);

/// All of it for the latents that `rows` names, in one launch; parts are not used.
void scan_rest(const Scan& scan, double tau, const ValueRange* range, Results results,
               cudaStream_t stream);

/// Pulls [K, d]. `distances` [N] is room for those of the winners.
void scan_codebook_grad(const Scan& scan, double tau, const int64_t* indices,
                        const float* denominators, float* distances, float* grads,
                        cudaStream_t stream);

/// grads [count] = sum over splits of parts [splits, count].
void add_parts(const float* parts, int splits, int64_t count, float* grads, cudaStream_t stream);

}  // namespace nsvq
