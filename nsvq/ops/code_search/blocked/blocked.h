// Search and NS loss by blocked matrix products: for any GPU and dimension.
//
// cuBLAS multiplies some latents with some codes at a time (blocked_passes_cuda.cpp), in TF32 where
// the GPU has it (in fp32 for small d, see kTf32Dimensions); a kernel reads the block of products
// once. Every code whose score is within its error bound (blocked_bound.h) of the best so far is
// measured at once by fp64 differences, so the search is exact, and the sums of the NS loss are
// kept up to date beside it. The gradient computes the products again: weights overwrite them, and
// a second product adds up the weighted latents.
#pragma once

#include "nsvq/ops/code_search/blocked/blocked_bound.h"
#include "nsvq/ops/code_search/hopper/tile_layout.h"

namespace nsvq::blocked {

constexpr int kPerThread = 32;        ///< scores that a thread holds
constexpr int64_t kScores = 1 << 26;  ///< scores in a block: 256 MiB
/// From this d on products are in TF32. Below it codes lie so close together that 11 bits would
/// show in the NS loss, and fp32 products take less time than reading and writing their results.
constexpr int64_t kTf32Dimensions = 32;
constexpr int64_t kCodeMultiple = 64;  ///< blocks of codes are padded to a multiple of it

/// Codes of a row that a thread block reads: few threads for few codes.
inline int64_t panel_for(int64_t codes) { return (codes <= 2048 ? 64 : 256) * kPerThread; }

/// The largest bounds of a block of codes: bits of non-negative floats, which have their order.
struct Widest {
  uint32_t norm, residual;
};

/// Packed rows: centred, scaled, rounded if Frame::rounds, with their norms.
struct Rows {
  float* values;    ///< [padded, stride]
  float* squares;   ///< |B|^2 of codes; null for latents
  RowNorms* norms;  ///< a latent without a nearest code has norm -1
  Widest* widest;   ///< largest bounds of codes, zero on entry; null for latents
  int64_t padded, stride;
};

/// How values are centred and scaled, and scores turned into weights.
struct Frame {
  const float* centre;
  const Unit* unit;
  int64_t dimension;
  bool with_loss;
  bool rounds;  ///< values and weights to TF32
};

/// Computes the unit, once for all kernels, since fp64 is slow on many GPUs. tau <= 0: a search
/// without the loss.
void write_unit(const ValueRange* range, double tau, Unit* unit, cudaStream_t stream);

/// Packs rows. Columns past the last are 0, but latents have a 1 in column d: a product with
/// weights then has their sums as well. Codes past the last have no score. A latent that is not
/// finite, and every latent if a code is not, is 0.
void pack_rows(Matrix source, const Frame& frame, const Rows& rows, cudaStream_t stream);

/// A latent's search after some of the codes; each split of the codes has one.
struct alignas(16) State {
  double distance;  ///< distance of `code`, by fp64 differences
  /// Sums of e and e (s - reference) without `code`, e = 2^(rate (reference - s)).
  double sum, moment;
  float upper;      ///< the nearest code's exact score is at most this
  float reference;  ///< the least score
  float score;      ///< score of `code`
  int32_t code;     ///< the nearest so far
};

/// Products of latents [first_latent, first_latent + count) with codes from first_code.
struct Block {
  float* products;  ///< [count, padded codes]
  int64_t first_latent, count, first_code;
  Rows latents, codes;   ///< latents: all of them
  Matrix given_latents;  ///< as they were given, for fp64
  Matrix given_codes;
  Frame frame;
  State* states;  ///< [splits, N]
};

/// Updates the states with a block of products.
void sweep_block(const Block& block, cudaStream_t stream);

/// Writes the results of all latents from their states.
void finish_search(const Block& block, int splits, const Results& results, cudaStream_t stream);

/// A latent's numbers by which its scores become weights.
struct Anchor {
  float score;     ///< score of the winner
  float log2sum;   ///< logarithm of the denominator
  int64_t winner;  ///< -1: the latent weighs nothing
};

void anchor_latents(const Block& block, const int64_t* indices, const float* denominators,
                    Anchor* anchors, cudaStream_t stream);

/// Weights, rounded like the values, in place of the products; 0 for winners.
void weigh_block(const Block& block, const Anchor* anchors, cudaStream_t stream);

/// Writes the gradients of the block's codes, from sums [padded codes, latents' stride] of weighted
/// latents.
void finish_codebook_grad(const Block& block, const float* sums, float* grads, cudaStream_t stream);

}  // namespace nsvq::blocked
