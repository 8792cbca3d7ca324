#include "nsvq/ops/code_search/distance_gradients.h"

namespace nsvq {

using Tensor = torch::Tensor;

Tensor code_differences(const Tensor& latents, const Tensor& codebook, const Tensor& indices) {
  return latents.to(at::kFloat) - codebook.index_select(0, indices.clamp_min(0)).to(at::kFloat);
}

void add_to_code_rows(Tensor grad, const Tensor& indices, const Tensor& rows) {
  grad.index_add_(0, indices.clamp_min(0), rows);
}

DistanceGradients distance_gradients(torch::autograd::AutogradContext* context,
                                     const Tensor& gradient, Tensor codebook_grad) {
  const auto saved = context->get_saved_variables();
  const auto &latents = saved[0], &codebook = saved[1], &indices = saved[2];
  const auto towards = code_differences(latents, codebook, indices) * (gradient * 2).unsqueeze(1);
  DistanceGradients result;
  if (context->needs_input_grad(0)) result.latents = towards.to(latents.scalar_type());
  if (context->needs_input_grad(1)) {
    if (!codebook_grad.defined()) codebook_grad = at::zeros_like(codebook, at::kFloat);
    add_to_code_rows(codebook_grad, indices, -towards);
    result.codebook = codebook_grad.to(codebook.scalar_type());
  }
  return result;
}

}  // namespace nsvq
