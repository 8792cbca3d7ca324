#pragma once

#include <cstdint>
#include <limits>
#include <vector>

namespace nsvq {

/// The place of one latent's weights if they are kept: those of a panel are adjacent, those of
/// panels `stride` apart.
struct RowWeights {
  float* first = nullptr;
  int64_t stride = 0;

  float& of(int64_t code) const;
};

struct RowResult {
  int64_t index;
  double distance;     ///< squared, by fp64 differences
  double loss;         ///< sum over the codes but the winner of softmax weight times distance
  double denominator;  ///< sum over all codes of exp((s_winner - s_j) / tau)
  float least;         ///< the least score, which the kept weights refer to at the end
  double share;        ///< one over the sum of the weights that refer to it, the winner's included
};

/// Search through the scores s_j = |c_j|^2 - 2 z.c_j of one latent, piece by piece of the codebook.
///
/// For the NS loss it keeps sums over the codes met, of weights relative to the least score b,
///   S = sum e_j,   T = sum e_j (s_j - b),   e_j = exp((b - s_j) / tau),
/// from which the code b itself is left out, since 1 + S would swallow a small S; once a lower
/// score is met it joins the others. What is wanted is (T + D_b S) / (1 + S), with D_b the squared
/// distance of b.
class RowSearch {
 public:
  /// `slack` is the twofold error bound of a score (sweep.cpp); `rate` is log2(e) / tau, so
  /// that e_j = 2^((b - s_j) rate), or 0 for the search alone.
  RowSearch(float slack, float rate, RowWeights kept) : slack_(slack), rate_(rate), kept_(kept) {}

  /// Scores of `count` panels from `panel` on, 10 * 16 apart, and the least of them. The scores are
  /// overwritten. Returns the score that the kept weights of this piece refer to.
  float meet(float* scores, float least, int64_t panel, int64_t count);

  /// After all pieces. The winner's kept weight becomes 0.
  RowResult finish(const float* latent, const float* codebook, int64_t dimension);

 private:
  struct Candidate {
    int64_t code;
    float score;
  };

  /// Notes the codes that can still be the nearest; the first with the least score.
  int64_t note_candidates(const float* scores, float least, int64_t panel, int64_t count);
  void replace_best(float score, int64_t code);
  void drop_beaten();
  void complete(RowResult& result, float winners_score);

  float slack_, rate_;
  RowWeights kept_;
  float best_ = std::numeric_limits<float>::infinity();
  int64_t best_code_ = -1;
  double sum_ = 0, scored_ = 0;
  std::vector<Candidate> candidates_;
};

}  // namespace nsvq
