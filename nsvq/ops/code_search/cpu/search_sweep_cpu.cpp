// Why the search is exact. With u = 2^-24, any order of summation, fused or not, and |c_j| <= C,
// the error of a score s_j = |c_j|^2 - 2 z.c_j in fp32 is at most
//
//   E = 3 u C^2 + 2 (d + 3) u |z| C     (rounding of |c_j|^2, of the product of d terms, of the
//   difference)
//
// slightly enlarged, since u counts as u / (1 - d u), and with an absolute term for products that
// underflow. The fp64 distances that decide are rounded too, by at most (d + 2) 2^-53 (|z| + C)^2.
// The part of this with |z|^2, which exceeds E where codes are tiny beside latents, is added to E,
// and the rest is covered by its enlargement; D_j below is such a distance less |z|^2. If w is the
// winner and b the code of least score, then
//   s_w <= D_w + E <= D_b + E <= s_b + 2 E,
// so every code within 2 E of the least score may be the winner. Among these, with E_j the bound
// for the code's own norm, s_w - E_w <= D_w <= D_k <= s_k + E_k for every k, so those whose s_j -
// E_j is above the least s_k + E_k are not, and the others are measured by their differences in
// fp64, in the order of indices, and the least of these distances wins. So the result depends on
// neither tiles nor threads.

#include "nsvq/ops/code_search/cpu/search_sweep_cpu.h"

#include <cmath>

namespace nsvq {

namespace {

/// E of the comment above, as coefficients.
ScoreErrors errors_for(double latent, int64_t dimension) {
  const double u = std::ldexp(1.0, -24), d = static_cast<double>(dimension);
  const double enlarged = (1 + 2 * d * u) * 1.001;
  const double of_distances = (d + 2) * std::ldexp(1.0, -53) * latent * latent;
  return {3 * u * enlarged, 2 * (d + 3) * u * latent * enlarged,
          2 * d * 1.2e-38 + 1.001 * of_distances};
}

}  // namespace

void sweep_rows(const Sweep& sweep, int64_t begin, int64_t end, RowResult* results,
                const KeptWeights* kept) {
  const auto& panels = sweep.panels;
  const int64_t d = panels.dimension(), rows = end - begin;
  const float* latents = sweep.latents + begin * d;
  std::vector<float> strips(strips_size(rows, d));
  pack_strips(latents, rows, d, strips.data());
  std::vector<RowSearch> searches;
  searches.reserve(rows);
  for (int64_t i = 0; i < rows; ++i) {
    const RowWeights weights =
        kept ? RowWeights{kept->weights + i * kPanel, kept->latents * kPanel} : RowWeights{};
    searches.emplace_back(errors_for(sweep.norms[begin + i], d), panels.largest(), panels.norms(0),
                          sweep.rate, weights);
  }
  std::vector<float> scores(panels.piece() * kStrip * kPanel);
  float least[kStrip];
  for (int64_t piece = 0; piece < panels.pieces(); ++piece) {
    const int64_t panel = piece * panels.piece();
    const int64_t count = std::min(panels.piece(), panels.panels() - panel);
    for (int64_t row = 0; row < rows; row += kStrip) {
      const int64_t here = std::min(kStrip, rows - row);
      tile_kernels().scores(strips.data() + row * d, here, d, panels.panel(panel),
                            panels.norms(panel), count, scores.data(), least);
      for (int64_t r = 0; r < here; ++r) {
        const float reference =
            searches[row + r].meet(scores.data() + r * kPanel, least[r], panel, count);
        if (kept) kept->references[piece * kept->latents + row + r] = reference;
      }
    }
  }
  for (int64_t i = 0; i < rows; ++i) {
    results[i] = searches[i].finish(latents + i * d, sweep.codebook, d);
  }
}

void check_finite(const char* name, double latents_norm, double codebook_norm) {
  TORCH_CHECK(std::isfinite(codebook_norm), name, ": codebook holds NaN or infinity");
  TORCH_CHECK(std::isfinite(latents_norm), name, ": latents hold NaN or infinity");
}

bool squares_fit(double latents_norm, double codebook_norm) {
  return std::max(latents_norm, codebook_norm) <= 1e18;
}

}  // namespace nsvq
