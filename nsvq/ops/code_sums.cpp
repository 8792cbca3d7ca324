#include "nsvq/ops/code_sums.h"

namespace nsvq {

torch::Tensor code_sums_reference(const torch::Tensor& latents, const torch::Tensor& indices,
                                  int64_t codes) {
  const auto wide = latents.to(at::kFloat);
  return at::zeros({codes, latents.size(1)}, wide.options()).index_add_(0, indices, wide);
}

torch::Tensor code_sums(const torch::Tensor& latents, const torch::Tensor& indices, int64_t codes) {
  return code_sums_reference(latents, indices, codes);
}

}  // namespace nsvq
