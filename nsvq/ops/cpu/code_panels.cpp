#include "nsvq/ops/cpu/code_panels.h"

#include <ATen/Parallel.h>

#include <cmath>
#include <limits>
#include <vector>

namespace nsvq {

CodePanels::CodePanels(const torch::Tensor& codebook)
    : codes_(codebook.size(0)),
      dimension_(codebook.size(1)),
      values_(at::zeros({(codes_ + kPanel - 1) / kPanel, dimension_, kPanel}, at::kFloat)),
      norms_(
          at::full({values_.size(0), kPanel}, std::numeric_limits<float>::infinity(), at::kFloat)) {
  const auto* codes = codebook.const_data_ptr<float>();
  auto* values = values_.mutable_data_ptr<float>();
  auto* norms = norms_.mutable_data_ptr<float>();
  std::vector<double> exact(codes_);
  at::parallel_for(0, codes_, 1024, [&](int64_t begin, int64_t end) {
    for (int64_t j = begin; j < end; ++j) {
      const float* code = codes + j * dimension_;
      float* column = values + (j / kPanel) * dimension_ * kPanel + j % kPanel;
      double norm = 0;
      for (int64_t k = 0; k < dimension_; ++k) {
        column[k * kPanel] = code[k];
        norm += static_cast<double>(code[k]) * code[k];
      }
      exact[j] = norm;
      norms[j] = static_cast<float>(norm);
    }
  });
  for (const double norm : exact) largest_ = std::max(largest_, std::sqrt(norm));
}

NSVQ_FOR_EACH_CPU
void tile_products(const float* latents, int64_t rows, int64_t dimension, const float* panel,
                   Tile& products) {
  const float* z[kRows];
  for (int64_t r = 0; r < kRows; ++r) z[r] = latents + (r < rows ? r : 0) * dimension;
  const auto* codes = reinterpret_cast<const Vector*>(panel);
  Vector sums[kRows][kVectors] = {};
  for (int64_t k = 0; k < dimension; ++k) {
#pragma GCC unroll 8
    for (int64_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
      for (int64_t v = 0; v < kVectors; ++v) sums[r][v] += z[r][k] * codes[k * kVectors + v];
    }
  }
  for (int64_t r = 0; r < kRows; ++r) {
    for (int64_t v = 0; v < kVectors; ++v) products.rows[r][v] = sums[r][v];
  }
}

}  // namespace nsvq
