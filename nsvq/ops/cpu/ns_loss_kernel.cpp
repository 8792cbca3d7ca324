// The NS loss and its gradient on a CPU, without the N x K matrix, in two passes of tiles.
//
// Scores s_j = |c_j|^2 - 2 z.c_j are the distances less |z|^2, which the softmax does not notice.
// The first pass runs over the codes for each latent and keeps, relative to the winner's score s_q,
// which is known,
//   S = sum_{j != q} e_j,   T = sum_{j != q} e_j s_j,   e_j = exp((s_q - s_j) / tau),
// so that the sum wanted is (T + |z|^2 S) / (1 + S). The second runs over the latents for each
// panel of codes and gathers weights and weighted latents. Latents belong to one thread in the
// first pass and codes in the second, and sums have an order of their own, so the number of threads
// does not matter.

#include <ATen/Parallel.h>
#include <torch/library.h>

#include <cmath>
#include <cstring>
#include <tuple>

#include "nsvq/ops/cpu/code_panels.h"
#include "nsvq/ops/cpu/vector_exp.h"

namespace nsvq {

namespace {

/// Latents as tiles need them, with what is known of each.
struct Latents {
  const float* values;
  int64_t count, dimension;
  const int64_t* winners;
  const float* references;  ///< the winners' scores
};

float dot(const float* a, const float* b, int64_t dimension) {
  double sum = 0;
  for (int64_t k = 0; k < dimension; ++k) sum += static_cast<double>(a[k]) * b[k];
  return static_cast<float>(sum);
}

/// Products to scores and these to weights exp((reference - score) / tau). False if all weights are
/// 0.
NSVQ_FOR_EACH_CPU
bool to_weights(const float* norms, int64_t rows, const float* references, float rate, Tile& scores,
                Tile& weights) {
  const auto* norm = reinterpret_cast<const Vector*>(norms);
  auto any = norm[0] != norm[0];
  for (int64_t r = 0; r < rows; ++r) {
#pragma GCC unroll 8
    for (int64_t v = 0; v < kVectors; ++v) {
      scores.rows[r][v] = norm[v] - 2.0f * scores.rows[r][v];
      const Vector x = (references[r] - scores.rows[r][v]) * rate;
      any |= x > -87.0f;
      weights.rows[r][v] = x;
    }
  }
  int found = 0;
  for (size_t j = 0; j < sizeof(Vector) / sizeof(float); ++j) found |= any[j];
  if (found == 0) return false;
  for (int64_t r = 0; r < rows; ++r) {
#pragma GCC unroll 8
    for (int64_t v = 0; v < kVectors; ++v) {
      // No score is below the winner's, but for rounding.
      const Vector x = weights.rows[r][v];
      weights.rows[r][v] = vector_exp(x > 0.0f ? Vector{} : x);
    }
  }
  return true;
}

/// Sums over a tile's row: weights, and weights times scores (absent codes have an infinite score
/// and no weight).
NSVQ_FOR_EACH_CPU
void row_sums(const Tile& weights, const Tile& scores, int64_t row, double& sum, double& scored) {
  Vector s{}, t{};
#pragma GCC unroll 8
  for (int64_t v = 0; v < kVectors; ++v) {
    const Vector e = weights.rows[row][v];
    s += e;
    t += e > 0.0f ? e * scores.rows[row][v] : Vector{};
  }
  float s_all = 0, t_all = 0;
  for (size_t j = 0; j < sizeof(Vector) / sizeof(float); ++j) {
    s_all += s[j];
    t_all += t[j];
  }
  sum += s_all;
  scored += t_all;
}

/// weights^T latents of a tile, added to the panel's sums [d, 16].
NSVQ_FOR_EACH_CPU
void add_weighted(const Tile& weights, const float* latents, int64_t rows, int64_t dimension,
                  float* sums) {
  Vector w[kRows][kVectors];
  const float* z[kRows];
  for (int64_t r = 0; r < kRows; ++r) {
    z[r] = latents + (r < rows ? r : 0) * dimension;
    for (int64_t v = 0; v < kVectors; ++v) w[r][v] = r < rows ? weights.rows[r][v] : Vector{};
  }
  auto* sum = reinterpret_cast<Vector*>(sums);
  for (int64_t k = 0; k < dimension; ++k) {
    Vector here[kVectors];
#pragma GCC unroll 8
    for (int64_t v = 0; v < kVectors; ++v) here[v] = sum[k * kVectors + v];
#pragma GCC unroll 8
    for (int64_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
      for (int64_t v = 0; v < kVectors; ++v) here[v] += w[r][v] * z[r][k];
    }
#pragma GCC unroll 8
    for (int64_t v = 0; v < kVectors; ++v) sum[k * kVectors + v] = here[v];
  }
}

void drop_winner(Tile& weights, int64_t row, int64_t winner, int64_t panel) {
  const int64_t lane = winner - panel * kPanel;
  if (lane < 0 || lane >= kPanel) return;
  reinterpret_cast<float*>(weights.rows[row])[lane] = 0;
}

constexpr int64_t kBlock = 16 * kRows;

void terms_of_block(const Latents& z, const CodePanels& panels, float tau, int64_t begin,
                    int64_t end, float* losses, float* denominators) {
  const int64_t d = z.dimension;
  std::vector<double> sums(end - begin), scored(end - begin);
  Tile scores, weights;
  for (int64_t panel = 0; panel < panels.panels(); ++panel) {
    for (int64_t row = begin; row < end; row += kRows) {
      const int64_t rows = std::min(kRows, end - row);
      tile_products(z.values + row * d, rows, d, panels.panel(panel), scores);
      if (!to_weights(panels.norms(panel), rows, z.references + row, 1 / tau, scores, weights)) {
        continue;
      }
      for (int64_t r = 0; r < rows; ++r) {
        drop_winner(weights, r, z.winners[row + r], panel);
        row_sums(weights, scores, r, sums[row + r - begin], scored[row + r - begin]);
      }
    }
  }
  for (int64_t i = begin; i < end; ++i) {
    const double own = dot(z.values + i * d, z.values + i * d, d);
    const double s = sums[i - begin];
    losses[i] = static_cast<float>((scored[i - begin] + own * s) / (1 + s));
    denominators[i] = static_cast<float>(1 + s);
  }
}

/// The winners' scores, [N].
torch::Tensor winners_scores(const torch::Tensor& z, const torch::Tensor& c,
                             const torch::Tensor& q) {
  auto scores = at::empty({z.size(0)}, at::kFloat);
  const int64_t d = z.size(1);
  const auto* latents = z.const_data_ptr<float>();
  const auto* codes = c.const_data_ptr<float>();
  const auto* winners = q.const_data_ptr<int64_t>();
  auto* score = scores.mutable_data_ptr<float>();
  at::parallel_for(0, z.size(0), 1024, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const float* code = codes + winners[i] * d;
      score[i] = dot(code, code, d) - 2 * dot(latents + i * d, code, d);
    }
  });
  return scores;
}

std::tuple<torch::Tensor, torch::Tensor> ns_terms_cpu(const torch::Tensor& latents,
                                                      const torch::Tensor& codebook,
                                                      const torch::Tensor& indices, double tau) {
  const auto z = latents.contiguous(), c = codebook.contiguous(), q = indices.contiguous();
  auto losses = at::empty({z.size(0)}, at::kFloat), denominators = at::empty_like(losses);
  const CodePanels panels(c);
  const auto references = winners_scores(z, c, q);
  const Latents all{z.const_data_ptr<float>(), z.size(0), z.size(1), q.const_data_ptr<int64_t>(),
                    references.const_data_ptr<float>()};
  auto* loss = losses.mutable_data_ptr<float>();
  auto* denominator = denominators.mutable_data_ptr<float>();
  at::parallel_for(0, (all.count + kBlock - 1) / kBlock, 1, [&](int64_t first, int64_t last) {
    for (int64_t block = first; block < last; ++block) {
      terms_of_block(all, panels, static_cast<float>(tau), block * kBlock,
                     std::min((block + 1) * kBlock, all.count), loss, denominator);
    }
  });
  return {losses, denominators};
}

/// sum_i p_ij c_j - sum_i p_ij z_i for the codes of a panel.
void pull_of_panel(const Latents& z, const CodePanels& panels, const float* codebook, float tau,
                   const float* shares, int64_t panel, float* pulls) {
  const int64_t d = z.dimension;
  std::vector<float> buffer(d * kPanel + 16);
  auto* sums =
      reinterpret_cast<float*>((reinterpret_cast<uintptr_t>(buffer.data()) + 63) & ~uintptr_t{63});
  std::memset(sums, 0, d * kPanel * sizeof(float));
  double totals[kPanel] = {};
  Tile scores, weights;
  for (int64_t row = 0; row < z.count; row += kRows) {
    const int64_t rows = std::min(kRows, z.count - row);
    tile_products(z.values + row * d, rows, d, panels.panel(panel), scores);
    if (!to_weights(panels.norms(panel), rows, z.references + row, 1 / tau, scores, weights)) {
      continue;
    }
    for (int64_t r = 0; r < rows; ++r) {
      drop_winner(weights, r, z.winners[row + r], panel);
      for (int64_t v = 0; v < kVectors; ++v) weights.rows[r][v] *= shares[row + r];
      for (int64_t j = 0; j < kPanel; ++j) totals[j] += weights.row(r)[j];
    }
    add_weighted(weights, z.values + row * d, rows, d, sums);
  }
  const int64_t codes = std::min(kPanel, panels.codes() - panel * kPanel);
  for (int64_t j = 0; j < codes; ++j) {
    const float* code = codebook + (panel * kPanel + j) * d;
    float* pull = pulls + (panel * kPanel + j) * d;
    for (int64_t k = 0; k < d; ++k) {
      pull[k] = static_cast<float>(totals[j] * code[k] - sums[k * kPanel + j]);
    }
  }
}

torch::Tensor ns_pull_cpu(const torch::Tensor& latents, const torch::Tensor& codebook,
                          const torch::Tensor& indices, const torch::Tensor& denominators,
                          double tau) {
  const auto z = latents.contiguous(), c = codebook.contiguous(), q = indices.contiguous();
  auto pulls = at::empty_like(c);
  const CodePanels panels(c);
  const auto references = winners_scores(z, c, q), shares = denominators.reciprocal();
  const Latents all{z.const_data_ptr<float>(), z.size(0), z.size(1), q.const_data_ptr<int64_t>(),
                    references.const_data_ptr<float>()};
  at::parallel_for(0, panels.panels(), 1, [&](int64_t first, int64_t last) {
    for (int64_t panel = first; panel < last; ++panel) {
      pull_of_panel(all, panels, c.const_data_ptr<float>(), static_cast<float>(tau),
                    shares.const_data_ptr<float>(), panel, pulls.mutable_data_ptr<float>());
    }
  });
  return pulls;
}

}  // namespace

TORCH_LIBRARY_IMPL(nsvq, CPU, m) {
  m.impl("ns_terms", ns_terms_cpu);
  m.impl("ns_pull", ns_pull_cpu);
}

}  // namespace nsvq
