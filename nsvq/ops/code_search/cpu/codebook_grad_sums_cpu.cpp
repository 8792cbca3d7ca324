#include "nsvq/ops/code_search/cpu/codebook_grad_sums_cpu.h"

#include <algorithm>

namespace nsvq {

CodebookGradSums::CodebookGradSums(const CodePanels& panels)
    : codes_(panels.codes()),
      dimension_(panels.dimension()),
      sums_(at::zeros({panels.panels(), dimension_ + 1, kPanel}, at::kFloat)) {}

void CodebookGradSums::add(int64_t panel, int64_t count, const float* components, int64_t rows,
                           const float* weights, int64_t stride) {
  float* sums = sums_.mutable_data_ptr<float>() + panel * (dimension_ + 1) * kPanel;
  tile_kernels().add_products(components, dimension_ + 1, rows, weights, stride, count, sums);
}

void CodebookGradSums::write(int64_t panel, int64_t count, const float* codebook,
                             float* grads) const {
  const int64_t end = std::min((panel + count) * kPanel, codes_);
  for (int64_t j = panel * kPanel; j < end; ++j) {
    const float* sums =
        sums_.const_data_ptr<float>() + j / kPanel * (dimension_ + 1) * kPanel + j % kPanel;
    const float total = sums[dimension_ * kPanel];
    for (int64_t k = 0; k < dimension_; ++k) {
      grads[j * dimension_ + k] = total * codebook[j * dimension_ + k] - sums[k * kPanel];
    }
  }
}

}  // namespace nsvq
