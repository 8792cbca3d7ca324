#pragma once

#include <torch/types.h>

#include "nsvq/ops/code_search/cpu/code_panels_cpu.h"

namespace nsvq {

/// Sums over latents of p_ij z_i and of p_ij for each code j, from which follows the gradient of
/// the NS loss without its factor, sum_i p_ij (c_j - z_i).
class CodebookGradSums {
 public:
  explicit CodebookGradSums(const CodePanels& panels);

  /// Adds the terms of `rows` latents and the codes of `count` panels from `panel` on. components
  /// are the latents (pack_component_strips); weights are panels [rows, 16], `stride` apart. A
  /// panel belongs to one thread at a time.
  void add(int64_t panel, int64_t count, const float* components, int64_t rows,
           const float* weights, int64_t stride);

  /// Writes the rows of the gradient [K, d] for the codes of `count` panels from `panel` on.
  void write(int64_t panel, int64_t count, const float* codebook, float* grads) const;

 private:
  int64_t codes_, dimension_;
  torch::Tensor sums_;  // [panels, d + 1, 16], the sums of p_ij in the last row
};

}  // namespace nsvq
