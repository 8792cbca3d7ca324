#include "nsvq/ops/code_search/cpu/code_panels_cpu.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "nsvq/core/threads/parallel.h"
#include "nsvq/ops/common/vectors_cpu.h"

namespace nsvq {

namespace {

/// x|^2 in four sums at a time, since each addition waits for the last one.
double squared_norm(const float* values, int64_t dimension) {
  double sums[4] = {};
  int64_t k = 0;
  for (; k + 4 <= dimension; k += 4) {
    for (int64_t lane = 0; lane < 4; ++lane) {
      sums[lane] += static_cast<double>(values[k + lane]) * values[k + lane];
    }
  }
  for (; k < dimension; ++k) sums[0] += static_cast<double>(values[k]) * values[k];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

}  // namespace

std::vector<double> norms_of(const float* values, int64_t rows, int64_t dimension) {
  constexpr int64_t kAtATime = 512;
  std::vector<double> norms(rows);
  parallel_ranges(rows, kAtATime, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      norms[i] = std::sqrt(squared_norm(values + i * dimension, dimension));
    }
  });
  return norms;
}

double largest_of(const std::vector<double>& norms) {
  double largest = 0;
  for (const double norm : norms) largest = norm > largest || std::isnan(norm) ? norm : largest;
  return largest;
}

CodePanels::CodePanels(const torch::Tensor& codebook)
    : codes_(codebook.size(0)),
      dimension_(codebook.size(1)),
      values_(at::empty({(codes_ + kPanel - 1) / kPanel, dimension_, kPanel}, at::kFloat)),
      norms_(at::empty({values_.size(0), kPanel}, at::kFloat)) {
  const auto* codes = codebook.const_data_ptr<float>();
  auto* values = values_.mutable_data_ptr<float>();
  auto* norms = norms_.mutable_data_ptr<float>();
  const auto exact = norms_of(codes, codes_, dimension_);
  largest_ = largest_of(exact);
  constexpr int64_t kAtATime = 32 * kPanel;
  parallel_ranges(panels() * kPanel, kAtATime, [&](int64_t begin, int64_t end) {
    for (int64_t j = begin; j < end; ++j) {
      const float* code = codes + j * dimension_;
      float* column = values + j / kPanel * dimension_ * kPanel + j % kPanel;
      const bool there = j < codes_;
      for (int64_t k = 0; k < dimension_; ++k) column[k * kPanel] = there ? -2.0f * code[k] : 0.0f;
      norms[j] =
          there ? static_cast<float>(exact[j] * exact[j]) : std::numeric_limits<float>::infinity();
    }
  });
}

int64_t strips_size(int64_t rows, int64_t inner) {
  return (rows + kStrip - 1) / kStrip * kStrip * inner + kBehindStrips;
}

void pack_strips(const float* values, int64_t rows, int64_t dimension, float* strips) {
  for (int64_t first = 0; first < rows; first += kStrip) {
    float* strip = strips + first * dimension;
    for (int64_t r = 0; r < kStrip; ++r) {
      const float* row = values + (first + r) * dimension;
      const bool there = first + r < rows;
      for (int64_t k = 0; k < dimension; ++k) strip[k * kStrip + r] = there ? row[k] : 0.0f;
    }
  }
}

void pack_component_strips(const float* values, const float* factors, int64_t rows,
                           int64_t dimension, float* strips) {
  for (int64_t first = 0; first <= dimension; first += kStrip) {
    const int64_t components = std::min(kStrip, dimension - first);
    for (int64_t i = 0; i < rows; ++i) {
      const float* row = values + i * dimension + first;
      float* to = strips + first * rows + i * kStrip;
      int64_t c = 0;
      for (; c + kLanes<Vector4> <= components; c += kLanes<Vector4>) {
        Vector4 some;
        load(row + c, some);
        store(some * factors[i], to + c);
      }
      for (; c < components; ++c) to[c] = row[c] * factors[i];
      for (; c < kStrip; ++c) to[c] = first + c == dimension ? factors[i] : 0.0f;
    }
  }
}

}  // namespace nsvq
