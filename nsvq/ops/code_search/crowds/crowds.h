// Latents near more codes than the lists of the first pass hold, as after a replacement that copies
// much-used codes: thousands of codes 0.001 apart are all within the error bounds of each other.
//
// Such a latent z names a code m that it is near, its centre (rerank.cu). Latents with one centre
// are a crowd, and are compared once more with the codes about it, in differences to m: with
// X = z - m and Y = c - m,
//   |z - c|^2 = |X|^2 - (2 X.Y - |Y|^2),
// so that the nearest code has the highest score 2 X.Y - |Y|^2, and rounding to fp16 costs 2^-11 of
// |X| |Y|, not of the products of the values themselves. Y is as small as the crowd.
//
// Which codes: m is a code, so the nearest code c has |z - c| <= |z - m|, and by the triangle
// inequality |c - m| <= 2 |z - m|. Codes within twice the largest |z - m| of a crowd are its
// members; no other can be the nearest of any of its latents, whatever the first pass made of it. A
// code with the very values of m loses to it unless its index is lower, and is left out.
//
// Where latents are far from their codes, as in the first epochs, these are nearly all codes, for
// each of hundreds of crowds. Then another pass marks the codes whose scores of the first pass come
// within the error bounds of a latent's best (mark_crowds_sm90.cu), and codes without a mark are no
// members.
//
// Scores have a proven error (crowd_bound.h). The centre's own score is 0, exactly, and the listed
// code of the highest score has one known in fp64: from these on the floor of a latent rises to the
// highest score less its error. Codes within their bound of the floor are the latent's hits, of
// which fp64 differences find the nearest.
//
// Sums for the NS loss are those of the first pass, since list and sums together hold every code
// once; where these do not give them (complete_sums) every code is measured.
#pragma once

#include <algorithm>

#include "nsvq/ops/code_search/crowds/crowd_bound.h"
#include "nsvq/ops/code_search/hopper/tile_layout.h"

namespace nsvq {

constexpr int kMostHits = 128;
/// Crowds compared at a time. With no more of them marks cost more than they save.
constexpr int kCentres = 32;

/// The number of crowds that have marks, a bit per code; for crowds without marks every code counts
/// as marked. Memory for 512 of them is at most half of that for the tiles of codes.
inline int64_t marked_crowds(int64_t latents, int64_t words) {
  const int64_t most = std::max<int64_t>((int64_t{16} << 20) / (words * 4), 512);
  return std::min(latents, most) / kCentres * kCentres;
}

/// A latent in a crowd; `rank` is its index among the crowd's latents.
struct CrowdMember {
  int32_t latent, centre, rank;
};

/// Arrays on the GPU; those indexed by centre have room for every code.
struct Crowds {
  /// Five counts, zero on entry: latents in crowds, crowds, blocks that have begun, whether the
  /// latents are sorted, latents that are far from their centre.
  int32_t* counts;
  int32_t* sizes;      ///< [K] number of latents of a centre: zero on entry
  int32_t* limits;     ///< [K] bits of a centre's largest 4 |z - m|^2: zero on entry
  int32_t* firsts;     ///< [K] where the latents of a centre begin in `latents`
  int32_t* centres;    ///< [crowds]
  int32_t* places;     ///< [K] index of a centre in `centres`
  int32_t* centre_of;  ///< [N] -1: in no crowd
  float* scores;       ///< [N] lower bounds of the best score in the first pass
  uint32_t* marks;     ///< [words, marked] a bit per code, for the first crowds
  int32_t marked, words;
  CrowdMember* members;             ///< [latents] in the order in which they joined
  int32_t* latents;                 ///< [latents] crowd by crowd
  uint16_t* rows;                   ///< [N, panels * 64] differences to the centre, fp16
  crowds::Difference* differences;  ///< [N]
  int32_t* floors;                  ///< [N] bits of lower bounds of the best score, 0 or above
  int32_t* hit_counts;              ///< [N]
  Candidate* hits;                  ///< [N, kMostHits] codes, and scores with their error added

  static constexpr int kCounts = 5;

  /// Marks are made where there are many crowds and a quarter of the latents in them are far.
  __host__ __device__ bool are_marked() const {
    return counts[1] > kCentres && int64_t{4} * counts[4] >= counts[0];
  }
};

/// The first pass, the values it works on, its results and the crowds that it leaves.
struct Problem {
  SearchPass pass;
  Matrix latents, codes;
  int64_t dimension;
  Results results;
  Crowds crowds;
};

/// Finds the nearest among the candidates by fp64 distances and completes the sums. Latents whose
/// lists were too short for that are put into crowds.
void rerank_candidates(const Problem& problem, cudaStream_t stream);

/// Marks codes for the latents in crowds, where that is worth it.
void mark_crowds(const Problem& problem, cudaStream_t stream);

/// Finds the hits of the latents in crowds, with blocks of at most `shared_limit` bytes of shared
/// memory.
void multiply_crowds(const Problem& problem, int processors, int64_t shared_limit,
                     cudaStream_t stream);

/// Writes the results of the latents in crowds: by their hits or, where these are too many, by
/// differences with every code.
void finish_crowds(const Problem& problem, cudaStream_t stream);

}  // namespace nsvq
