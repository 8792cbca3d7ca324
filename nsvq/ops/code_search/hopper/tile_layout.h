// Latents and codes as tiles for the tensor cores, and the passes over these tiles:
//   value_range.cu            measure_values: centre and range
//   pack_search_tiles.cu      tiles for the first pass
//   search_pass_sm90.cu       first pass: candidates and softmax sums of each latent
//   rerank.cu                 exact nearest code among the candidates, losses, denominators
//   mark_crowds_sm90.cu       codes that may be nearest to far latents of many crowds
//   crowd_products.cu         latents near more codes than their lists hold (crowds.h)
//   finish_crowds.cu          their nearest codes, losses, denominators
//   pack_grad_tiles.cu        tiles for the second pass
//   ns_codebook_grad_sm90.cu  second pass: the gradient for the codebook
//   add_parts.cu              sum of that gradient over splits of the latents
//
// Values are centred, usually on the mean of (a sample of) the codes, which leaves distances alone,
// scaled by a power of two common to latents and codes, and rounded to fp16. A tile holds some rows
// as panels of 64 columns in the layout of sm90::operand, and 1,024 bytes more, so that one bulk
// copy brings it:
//   of codes:    bias [rows] fp32, a Header, norm [rows] bf16 (rounded up)
//   of latents:  bias [rows] fp32, winner [rows] int32 (for the second pass alone)
//
// Scores: y_ij = -rate (|B_j|^2 - 2 A_i.B_j) = rate (|A_i|^2 - D_ij), A and B the centred and
// scaled values, D their squared distance. The nearest code has the largest. With rate = log2 e /
// (tau scale^2), weights of the NS loss are powers of two of differences of scores; a search alone
// has rate 1.
//
// Error of a score. With rows A' = A + a, B' = B + b as rounded to fp16 (norms of a, b are known):
//   |A.B - A'.B'| <= |a| |B| + |A'| |b|.
// The tensor core multiplies exactly and adds 16 products to an fp32 sum; it may align all of them
// to the largest and cut off below 24 bits, in one go or in two of 8, and cut the result: at most
// 20 errors of 2^-23 max|addend| a step, and no addend or partial sum exceeds |A'| |B'|. The bias
// carries |B|^2 with relative error below 24 2^-24 (sums of at most 8 terms a lane, 5 levels of
// lanes, centring, the product with rate), the score itself one more rounding. In all
//   |error of y| <= alpha_i |B| + beta_i |b| + gamma,
//   alpha = 2 rate (|a| + kappa |A|),  beta = 2 rate |A|,  gamma = rate (24 2^-24 |B|^2 + 1e-30),
//   kappa = (20 d / 16 + 4) 2^-23,
// the norms being upper bounds. The fp64 distances that decide are rounded too, by up to
// (d + 2) 2^-53 |A|^2 more than the above has room for: |A| is below 2^19, so beta 2^-25 covers it,
// and |b| is taken to be 2^-25 larger; so much is also above the rounding of scores at the lowest
// rates. Bounds of a tile, by the largest norms of its codes (Header), tell whether it may hold a
// candidate; bounds of a code, by its norm, whether it is one.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "nsvq/ops/code_search/hopper/tile_sizes.h"

namespace nsvq {

constexpr float kNothing = -3e38f;  ///< the score of a row without a code
constexpr float kLeast = -2e38f;    ///< scores of codes are above it

/// Largest norm and rounding error of some codes, and gamma.
struct CodeBounds {
  float norm, residual, gamma;
};

/// Bounds of a tile of codes, and its least norm.
struct alignas(16) Header : CodeBounds {
  float least;
};

/// The largest bounds over all tiles, each multiplied by its tile's reach (reach_of), and whether
/// any tile is uneven (is_uneven).
struct alignas(16) WidestBounds : CodeBounds {
  int uneven;
};

/// A packed latent: |A|^2, and upper bounds of the norms of A and of its rounding error.
struct alignas(16) Row {
  float square, norm, residual;
  int finite;
};

/// A code that may be the nearest.
struct alignas(8) Candidate {
  int32_t code;
  float score;
};

/// A latent's state after a split of the codes. `floor` is a lower bound of the best score; sum =
/// sum of 2^(y - floor) and moment = sum of 2^(y - floor) (y - floor) run over the codes that are
/// not in the list of candidates. `places` counts the list's candidates. A list that was full is
/// closed (`places` is ~ of the count): from then on candidates go to the sums, none with a score
/// above floor + wake_of times the latent's bound for the tile.
struct alignas(16) Partial {
  float floor, sum, moment;
  int places;

  __host__ __device__ bool closed() const { return places < 0; }
  __host__ __device__ int count() const { return places < 0 ? ~places : places; }
};

struct Matrix {
  const float* values;
  int64_t rows;
};

/// The largest magnitudes in both tensors: bits of the largest |code| and of the largest finite
/// |latent|. Bits of infinity or above say that a code is not finite.
struct ValueRange {
  uint32_t code, latent;
};

struct Unit {
  float scale, rate;
  bool finite;
};

/// Measures the centre [d], usually the mean of the codes (value_range.cu), and the range (zero on
/// entry) of latents and codes.
void measure_values(Matrix latents, Matrix codes, int64_t dimension, float* centre,
                    ValueRange* range, int processors, cudaStream_t stream);

/// Output arrays [N]; losses and denominators may be null.
struct Results {
  int64_t* indices;
  float* distances;
  float* losses;
  float* denominators;
};

/// Packs all codes, padded to a multiple of 128 by rows without a score, and all latents, padded to
/// a multiple of 256, with their rows [N]. `widest` is zero on entry.
void pack_search_tiles(Matrix codes, Matrix latents, int64_t dimension, const float* centre,
                       const ValueRange* range, double tau, uint8_t* code_tiles,
                       uint8_t* latent_tiles, Row* rows, WidestBounds* widest, cudaStream_t stream);

/// Packs latents for the second pass: bias_i = -y(winner) - log2(denominator) + 15.
void pack_grad_tiles(Matrix latents, Matrix codes, int64_t dimension, const float* centre,
                     const ValueRange* range, double tau, const int64_t* indices,
                     const float* denominators, uint8_t* tiles, cudaStream_t stream);

/// Turns the first pass's tiles of latents into tiles for the second. A latent whose distance
/// overflows fp32 adds nothing to the gradient.
void weight_latent_tiles(int64_t count, int64_t dimension, const ValueRange* range, double tau,
                         const Row* rows, Results results, uint8_t* tiles, cudaStream_t stream);

/// Whether the passes below were compiled for this GPU: they need sm_90a.
bool has_matrix_kernels();

/// How the first pass divides its work, in which a block of threads has `block_latents` latents:
/// [N, splits, capacity] candidates, [N, splits] partials.
struct SearchPlan {
  int splits, capacity;
};
constexpr int kHopperBlockLatents = 256;
SearchPlan plan_search_pass(int64_t latents, int64_t codes, int64_t dimension, int processors,
                            int64_t block_latents);

struct SearchPass {
  const uint8_t* latents;
  const uint8_t* codes;
  const Row* rows;
  const ValueRange* range;
  const WidestBounds* widest;
  double tau;
  int64_t count;  ///< latents
  int code_tiles, splits, capacity;
  Candidate* candidates;
  Partial* partials;
};

/// The first pass: candidates of each latent and, with tau > 0, sums over all other codes.
void run_search_pass(const SearchPass& pass, int64_t dimension, cudaStream_t stream);

constexpr int kBlockCodes = 128;  ///< of a block of threads in the second pass

struct GradPass {
  const uint8_t* latents;
  const uint8_t* codes;
  Matrix codebook;
  int64_t dimension, latent_tiles;
  const float* centre;
  const ValueRange* range;
  double tau;
  float* grads;  ///< [splits, K, d]
};

/// The second pass: the sum [K, d] of ns_codebook_grad, or [splits, K, d] partial sums, each over a
/// share of the latents.
int grad_splits(int64_t latent_tiles, int64_t codes, int processors);
void run_codebook_grad_pass(const GradPass& pass, int splits, cudaStream_t stream);

/// grads [count] = sum over splits of parts [splits, count].
void add_parts(const float* parts, int splits, int64_t count, float* grads, cudaStream_t stream);

}  // namespace nsvq
