// The exact nearest code of each latent on a CPU, without the N x K matrix.
//
// Scores s_j = |c_j|^2 - 2 z.c_j are computed in fp32, tile by tile; they rank the codes as the
// distances do. With u = 2^-24, any order of summation, fused or not, and |c_j| <= C, the error of
// a score is at most
//
//   E = 3 u C^2 + 2 (d + 3) u |z| C     (rounding of |c_j|^2, of the product of d terms, of the
//   difference)
//
// slightly enlarged, since u counts as u / (1 - d u), and with an absolute term for products that
// underflow. If w is the true winner and b the code of least score, then
//   s_w <= D_w + E <= D_b + E <= s_b + 2 E,
// so every code within 2 E of the least score is measured again by its differences in fp64, in the
// order of indices, and the least of these distances wins. Whatever the tiles and threads, the
// result is the same.

#include <ATen/Parallel.h>
#include <torch/library.h>

#include <cmath>
#include <tuple>

#include "nsvq/ops/cpu/code_panels.h"
#include "nsvq/ops/streaming.h"

namespace nsvq {

namespace {

struct Candidate {
  int64_t code;
  float score;
};

/// The codes of one latent that can still be the nearest.
class Candidates {
 public:
  explicit Candidates(float slack) : slack_(slack) {}

  float limit() const { return least_ + slack_; }
  void add(int64_t code, float score) {
    if (score > limit()) return;
    least_ = std::min(least_, score);
    if (kept_.size() == kept_.capacity()) drop_beaten();
    kept_.push_back({code, score});
  }
  /// In the order of codes.
  const std::vector<Candidate>& finish() {
    drop_beaten();
    return kept_;
  }

 private:
  void drop_beaten() {
    std::erase_if(kept_, [&](const Candidate& one) { return one.score > limit(); });
  }

  float slack_;
  float least_ = std::numeric_limits<float>::infinity();
  std::vector<Candidate> kept_;
};

double norm_of(const float* z, int64_t dimension) {
  double sum = 0;
  for (int64_t k = 0; k < dimension; ++k) sum += static_cast<double>(z[k]) * z[k];
  return std::sqrt(sum);
}

/// 2 E of the comment above.
float slack_for(double latent, double code, int64_t dimension) {
  const double u = std::ldexp(1.0, -24), d = static_cast<double>(dimension);
  const double bound = 3 * u * code * code + 2 * (d + 3) * u * latent * code;
  return static_cast<float>(2 * bound * (1 + 2 * d * u) * 1.001 + 4 * d * 1.2e-38);
}

double exact_distance(const float* z, const float* code, int64_t dimension) {
  double sum = 0;
  for (int64_t k = 0; k < dimension; ++k) {
    const double difference = static_cast<double>(z[k]) - code[k];
    sum += difference * difference;
  }
  return sum;
}

/// Turns products into scores; whether a latent has one within its limit.
NSVQ_FOR_EACH_CPU
void to_scores(const float* norms, int64_t rows, const float* limits, Tile& tile, bool* hopeful) {
  const auto* norm = reinterpret_cast<const Vector*>(norms);
  for (int64_t r = 0; r < rows; ++r) {
    auto within = norm[0] != norm[0];  // none
#pragma GCC unroll 8
    for (int64_t v = 0; v < kVectors; ++v) {
      tile.rows[r][v] = norm[v] - 2.0f * tile.rows[r][v];
      within |= tile.rows[r][v] <= limits[r];
    }
    int any = 0;
    for (size_t j = 0; j < sizeof(Vector) / sizeof(float); ++j) any |= within[j];
    hopeful[r] = any != 0;
  }
}

struct Problem {
  const float* latents;
  const float* codebook;
  const CodePanels& panels;
  int64_t* indices;
  float* distances;
};

void choose(const Problem& problem, int64_t row, Candidates& candidates) {
  const int64_t d = problem.panels.dimension();
  double least = std::numeric_limits<double>::infinity();
  for (const auto& candidate : candidates.finish()) {
    const double distance =
        exact_distance(problem.latents + row * d, problem.codebook + candidate.code * d, d);
    if (distance < least) {
      least = distance;
      problem.indices[row] = candidate.code;
    }
  }
  problem.distances[row] = static_cast<float>(least);
}

/// Latents that share the panels while these are in the cache.
constexpr int64_t kBlock = 16 * kRows;

void search_block(const Problem& problem, int64_t begin, int64_t end) {
  const auto& panels = problem.panels;
  const int64_t d = panels.dimension();
  std::vector<Candidates> candidates;
  std::vector<float> limits(end - begin);
  for (int64_t i = begin; i < end; ++i) {
    candidates.emplace_back(slack_for(norm_of(problem.latents + i * d, d), panels.largest(), d));
  }
  Tile tile;
  bool hopeful[kRows];
  for (int64_t panel = 0; panel < panels.panels(); ++panel) {
    for (int64_t row = begin; row < end; row += kRows) {
      const int64_t rows = std::min(kRows, end - row);
      for (int64_t r = 0; r < rows; ++r)
        limits[row - begin + r] = candidates[row - begin + r].limit();
      tile_products(problem.latents + row * d, rows, d, panels.panel(panel), tile);
      to_scores(panels.norms(panel), rows, limits.data() + row - begin, tile, hopeful);
      for (int64_t r = 0; r < rows; ++r) {
        if (!hopeful[r]) continue;
        for (int64_t j = 0; j < kPanel; ++j) {
          if (panel * kPanel + j < panels.codes()) {
            candidates[row - begin + r].add(panel * kPanel + j, tile.row(r)[j]);
          }
        }
      }
    }
  }
  for (int64_t i = begin; i < end; ++i) choose(problem, i, candidates[i - begin]);
}

void check(const torch::Tensor& latents, const torch::Tensor& codebook) {
  TORCH_CHECK(latents.dim() == 2 && codebook.dim() == 2 && latents.size(1) == codebook.size(1),
              "exact_nearest_codes: latents must be [N, d] and codebook [K, d], but they are ",
              latents.sizes(), " and ", codebook.sizes());
  TORCH_CHECK(codebook.size(0) > 0, "exact_nearest_codes: codebook is empty");
  TORCH_CHECK(at::isfinite(codebook).all().item<bool>(),
              "exact_nearest_codes: codebook holds NaN or infinity");
  TORCH_CHECK(at::isfinite(latents).all().item<bool>(),
              "exact_nearest_codes: latents hold NaN or infinity");
}

std::tuple<torch::Tensor, torch::Tensor> exact_nearest_codes_cpu(const torch::Tensor& latents,
                                                                 const torch::Tensor& codebook) {
  check(latents, codebook);
  const auto z = latents.to(at::kFloat).contiguous(), c = codebook.to(at::kFloat).contiguous();
  const bool fp64 = latents.scalar_type() == at::kDouble || codebook.scalar_type() == at::kDouble;
  // Squares of larger numbers do not fit into fp32.
  const auto reach =
      std::max(z.numel() ? z.abs().max().item<double>() : 0, c.abs().max().item<double>());
  if (fp64 || reach * std::sqrt(static_cast<double>(c.size(1))) > 1e18) {
    return exact_nearest_codes_reference(latents, codebook);
  }
  auto indices = at::empty({z.size(0)}, at::kLong), distances = at::empty({z.size(0)}, at::kFloat);
  const CodePanels panels(c);
  const Problem problem{z.const_data_ptr<float>(), c.const_data_ptr<float>(), panels,
                        indices.mutable_data_ptr<int64_t>(), distances.mutable_data_ptr<float>()};
  const int64_t blocks = (z.size(0) + kBlock - 1) / kBlock;
  at::parallel_for(0, blocks, 1, [&](int64_t first, int64_t last) {
    for (int64_t block = first; block < last; ++block) {
      search_block(problem, block * kBlock, std::min((block + 1) * kBlock, z.size(0)));
    }
  });
  return {indices, distances};
}

}  // namespace

TORCH_LIBRARY_IMPL(nsvq, CPU, m) { m.impl("exact_nearest_codes", exact_nearest_codes_cpu); }

}  // namespace nsvq
