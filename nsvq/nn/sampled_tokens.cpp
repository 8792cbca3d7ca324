#include "nsvq/nn/sampled_tokens.h"

#include <ATen/autocast_mode.h>

#include "nsvq/ops/transformer/norms_inference.h"

namespace nsvq {

bool SampledTokens::takes(const torch::Tensor& x) {
  const auto device = x.device().type();
  return !at::GradMode::is_enabled() && at::autocast::is_autocast_enabled(device) &&
         at::autocast::get_autocast_dtype(device) == at::kBFloat16 &&
         x.scalar_type() == at::kFloat && row_norms_take(x.size(-1));
}

torch::Tensor SampledTokens::normed(const TokenNormImpl& norm, const Modulation& by) {
  const auto& shape = norm.shape();
  const auto [sum, result] =
      residual_norm_inference(x_, {branch_, gate_, by.shift, by.scale},
                              {shape.kind == NormKind::layer, shape.eps, norm.weight, norm.bias});
  if (branch_.defined()) x_ = sum;
  branch_.reset();
  gate_.reset();
  return result;
}

void SampledTokens::add(const torch::Tensor& branch, const torch::Tensor& gate) {
  TORCH_CHECK(!branch_.defined(), "SampledTokens: a norm has to follow what is added");
  branch_ = branch;
  gate_ = gate;
}

}  // namespace nsvq
