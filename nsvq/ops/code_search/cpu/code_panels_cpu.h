#pragma once

#include <torch/types.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "nsvq/ops/code_search/cpu/tile_products_cpu.h"

namespace nsvq {

/// A codebook [K, d] of fp32 for tiled scores: panels of 16 codes times -2, with a component of all
/// sixteen adjacent. The last panel is padded with zeros.
class CodePanels {
 public:
  explicit CodePanels(const torch::Tensor& codebook);

  int64_t codes() const { return codes_; }
  int64_t panels() const { return values_.size(0); }
  int64_t dimension() const { return dimension_; }
  const float* panel(int64_t index) const {
    return values_.const_data_ptr<float>() + index * dimension_ * kPanel;
  }
  /// Squared norms of a panel's codes; infinite where there is no code, so that none is chosen.
  const float* norms(int64_t index) const {
    return norms_.const_data_ptr<float>() + index * kPanel;
  }
  /// The largest norm of a code; infinite or NaN if a code is not finite.
  double largest() const { return largest_; }

  /// Panels that meet a strip of latents at a time: they stay in the second cache while other
  /// strips come, and their scores in the first.
  int64_t piece() const {
    return std::clamp<int64_t>(4096 / std::max<int64_t>(dimension_, 1), 4, 32);
  }
  int64_t pieces() const { return (panels() + piece() - 1) / piece(); }

 private:
  int64_t codes_, dimension_;
  torch::Tensor values_;  // [panels, d, 16], aligned to 64 bytes as every tensor
  torch::Tensor norms_;   // [panels, 16]
  double largest_ = 0;
};

/// Norms in fp64, which no finite fp32 numbers overflow, of rows [rows, d].
std::vector<double> norms_of(const float* values, int64_t rows, int64_t dimension);

/// The largest of the norms, 0 without any; infinite or NaN if one of them is.
double largest_of(const std::vector<double>& norms);

/// Floats that strips for `rows` rows need.
int64_t strips_size(int64_t rows, int64_t inner);

/// Packs rows [rows, d] as strips [rows / 10, d, 10], padded with zeros.
void pack_strips(const float* values, int64_t rows, int64_t dimension, float* strips);

/// Packs the transpose: the d components of the rows, each times its row's factor, and the factors
/// themselves as one component more, as strips [(d + 1) / 10, rows, 10].
void pack_component_strips(const float* values, const float* factors, int64_t rows,
                           int64_t dimension, float* strips);

}  // namespace nsvq
