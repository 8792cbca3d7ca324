#include "nsvq/ops/code_statistics/code_sums.h"

#include <torch/library.h>

#include "nsvq/ops/common/check_codes.h"
#include "nsvq/ops/common/dispatch.h"

namespace nsvq {

namespace {

using CodeSums = torch::Tensor(const torch::Tensor&, const torch::Tensor&, int64_t);

torch::Tensor code_sums_meta(const torch::Tensor& latents, const torch::Tensor&, int64_t codes) {
  return at::empty_symint({codes, latents.sym_size(1)}, latents.options().dtype(at::kFloat));
}

}  // namespace

torch::Tensor code_sums(const torch::Tensor& latents, const torch::Tensor& indices, int64_t codes) {
  static const auto op = operator_named<CodeSums>("nsvq::code_sums");
  return op.call(latents, indices, codes);
}

torch::Tensor code_sums_reference(const torch::Tensor& latents, const torch::Tensor& indices,
                                  int64_t codes) {
  const auto wide = latents.to(at::kFloat);
  return at::zeros({codes, latents.size(1)}, wide.options()).index_add_(0, indices, wide);
}

void check_code_sums(const torch::Tensor& latents, const torch::Tensor& indices) {
  TORCH_CHECK(latents.dim() == 2, "code_sums: latents must be [N, d], but they are ",
              latents.sizes());
  check_indices("code_sums", indices, latents);
  TORCH_CHECK(indices.device() == latents.device(), "code_sums: indices are on ", indices.device(),
              ", but latents are on ", latents.device());
}

TORCH_LIBRARY_FRAGMENT(nsvq, m) {
  m.def("code_sums(Tensor latents, Tensor indices, int codes) -> Tensor");
}
TORCH_LIBRARY_IMPL(nsvq, Meta, m) { m.impl("code_sums", code_sums_meta); }

}  // namespace nsvq
