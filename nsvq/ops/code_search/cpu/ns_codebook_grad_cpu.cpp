// The gradient of the NS loss on a CPU, without the N x K matrix: scores are computed again, block
// by block of latents, and turned into weights with the denominators of ns_search. Codes belong to
// one thread, so the number of threads does not matter.

#include <torch/library.h>

#include <algorithm>
#include <vector>

#include "nsvq/core/threads/parallel.h"
#include "nsvq/ops/code_search/cpu/codebook_grad_sums_cpu.h"
#include "nsvq/ops/code_search/cpu/search_sweep_cpu.h"
#include "nsvq/ops/common/check_codes.h"

namespace nsvq {

namespace {

/// Latents whose weights with the codes of a piece stay in the second cache.
constexpr int64_t kBlock = 8 * kStrip;

double dot(const float* a, const float* b, int64_t dimension) {
  double sum = 0;
  for (int64_t k = 0; k < dimension; ++k) sum += static_cast<double>(a[k]) * b[k];
  return sum;
}

/// Latents packed once for all pieces.
class GradLatents {
 public:
  GradLatents(const torch::Tensor& z, const torch::Tensor& c, const torch::Tensor& winners,
              const torch::Tensor& denominators)
      : count(z.size(0)), dimension(z.size(1)), winners_(winners), references_(count) {
    const auto* values = z.const_data_ptr<float>();
    const auto* codes = c.const_data_ptr<float>();
    const auto shares = denominators.reciprocal();
    for (int64_t i = 0; i < count; ++i) {
      TORCH_CHECK_INDEX(winner(i) >= 0 && winner(i) < c.size(0), "ns_codebook_grad: indices hold ",
                        winner(i), ", but codebook has ", c.size(0), " codes");
      const float* code = codes + winner(i) * dimension;
      references_[i] = static_cast<float>(dot(code, code, dimension) -
                                          2 * dot(values + i * dimension, code, dimension));
    }
    for (int64_t begin = 0; begin < count; begin += kBlock) {
      const int64_t rows = std::min(kBlock, count - begin);
      strips_.emplace_back(strips_size(rows, dimension));
      pack_strips(values + begin * dimension, rows, dimension, strips_.back().data());
      components_.emplace_back(strips_size(dimension + 1, rows));
      pack_component_strips(values + begin * dimension, shares.const_data_ptr<float>() + begin,
                            rows, dimension, components_.back().data());
    }
  }

  const float* strips(int64_t begin) const { return strips_[begin / kBlock].data(); }
  const float* components(int64_t begin) const { return components_[begin / kBlock].data(); }
  float reference(int64_t i) const { return references_[i]; }
  int64_t winner(int64_t i) const { return winners_.const_data_ptr<int64_t>()[i]; }

  const int64_t count, dimension;

 private:
  torch::Tensor winners_;
  std::vector<float> references_;  // the winners' scores
  std::vector<std::vector<float>> strips_, components_;
};

/// Turns one latent's scores with a piece of the codebook into weights, 0 for its winner.
void weigh_row(const GradLatents& z, int64_t i, float rate, int64_t panel, int64_t count,
               float* scores, float least, float* weights) {
  const float reference = z.reference(i);
  for (int64_t p = 0; p < count && least < reference;
       ++p) {  // only rounding puts a score below the winner's
    float* some = scores + p * kStrip * kPanel;
    for (int64_t j = 0; j < kPanel; ++j) some[j] = std::max(some[j], reference);
  }
  tile_kernels().weigh(scores, count, reference, rate, weights, kBlock * kPanel);
  const int64_t own = z.winner(i) - panel * kPanel;
  if (own >= 0 && own < count * kPanel) {
    weights[own / kPanel * kBlock * kPanel + own % kPanel] = 0;
  }
}

void grad_of_piece(const GradLatents& z, const CodePanels& panels, float rate, int64_t piece,
                   CodebookGradSums& sums) {
  const int64_t d = z.dimension, panel = piece * panels.piece();
  const int64_t count = std::min(panels.piece(), panels.panels() - panel);
  std::vector<float> scores(count * kStrip * kPanel), weights(count * kBlock * kPanel);
  float least[kStrip];
  for (int64_t begin = 0; begin < z.count; begin += kBlock) {
    const int64_t rows = std::min(kBlock, z.count - begin);
    for (int64_t row = 0; row < rows; row += kStrip) {
      const int64_t here = std::min(kStrip, rows - row);
      tile_kernels().scores(z.strips(begin) + row * d, here, d, panels.panel(panel),
                            panels.norms(panel), count, scores.data(), least);
      for (int64_t r = 0; r < here; ++r) {
        weigh_row(z, begin + row + r, rate, panel, count, scores.data() + r * kPanel, least[r],
                  weights.data() + (row + r) * kPanel);
      }
    }
    sums.add(panel, count, z.components(begin), rows, weights.data(), kBlock * kPanel);
  }
}

torch::Tensor ns_codebook_grad_cpu(const torch::Tensor& latents, const torch::Tensor& codebook,
                                   const torch::Tensor& indices, const torch::Tensor& denominators,
                                   double tau) {
  check_codes("ns_codebook_grad", latents, codebook);
  check_tau("ns_codebook_grad", tau);
  TORCH_CHECK(indices.dim() == 1 && indices.size(0) == latents.size(0) &&
                  denominators.sizes() == indices.sizes(),
              "ns_codebook_grad: indices and denominators must be [N] with N = ", latents.size(0),
              ", but they are ", indices.sizes(), " and ", denominators.sizes());
  const auto c = codebook.to(at::kFloat).contiguous();
  const GradLatents z(latents.to(at::kFloat).contiguous(), c, indices.to(at::kLong).contiguous(),
                      denominators.to(at::kFloat).contiguous());
  const CodePanels panels(c);
  CodebookGradSums sums(panels);
  auto grads = at::empty_like(c);
  parallel_tasks(panels.pieces(), [&](int64_t piece) {
    grad_of_piece(z, panels, rate_of(tau), piece, sums);
    sums.write(piece * panels.piece(), panels.piece(), c.const_data_ptr<float>(),
               grads.mutable_data_ptr<float>());
  });
  return grads;
}

}  // namespace

TORCH_LIBRARY_IMPL(nsvq, CPU, m) { m.impl("ns_codebook_grad", ns_codebook_grad_cpu); }

}  // namespace nsvq
