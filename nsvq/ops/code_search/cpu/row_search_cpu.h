#pragma once

#include <cstdint>
#include <limits>
#include <vector>

namespace nsvq {

/// Where the weights of one latent are kept, if at all: those of a panel are adjacent, panels are
/// `stride` apart.
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

/// Bounds of the errors of a latent's scores (derived in search_sweep_cpu.cpp), as coefficients:
/// square |c|^2 + product |c| + least.
struct ScoreErrors {
  double square = 0, product = 0, least = 0;
  double of(double norm) const { return (square * norm + product) * norm + least; }
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
  /// `largest` is the largest norm of a code, `norms` are the squared ones of all; `rate` is
  /// log2(e) / tau, so that e_j = 2^((b - s_j) rate), or 0 for the search alone.
  RowSearch(const ScoreErrors& errors, double largest, const float* norms, float rate,
            RowWeights kept)
      : errors_(errors),
        slack_(static_cast<float>(2 * errors.of(largest))),
        norms_(norms),
        rate_(rate),
        kept_(kept) {}

  /// Takes the scores of `count` panels from `panel` on, 10 * 16 apart, and the least of them. The
  /// scores are overwritten. Returns the score that the kept weights of this piece refer to.
  float meet(float* scores, float least, int64_t panel, int64_t count);

  /// The result, after all pieces. The winner's kept weight becomes 0.
  RowResult finish(const float* latent, const float* codebook, int64_t dimension);

 private:
  struct Candidate {
    int64_t code;
    float score;
    double error;
  };

  /// Notes the codes that can still be the nearest; returns the first with the least score.
  int64_t note_candidates(const float* scores, float least, int64_t panel, int64_t count);
  void replace_best(float score, int64_t code);
  void drop_beaten();
  void complete(RowResult& result, float winners_score);

  ScoreErrors errors_;
  float slack_;  ///< twice the largest error of a score
  const float* norms_;
  float rate_;
  RowWeights kept_;
  double upper_ = std::numeric_limits<double>::infinity();  ///< bound of the winner's exact score
  float best_ = std::numeric_limits<float>::infinity();
  int64_t best_code_ = -1;
  double sum_ = 0, scored_ = 0;
  std::vector<Candidate> candidates_;
};

}  // namespace nsvq
