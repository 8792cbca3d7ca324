#include "nsvq/quantizers/fit.h"

namespace nsvq {

torch::Tensor straight_through(const torch::Tensor& codes, const torch::Tensor& latents) {
  return codes.detach() + (latents - latents.detach());  // what is added is zero
}

Quantized commit_to_codes(const torch::Tensor& codes, const torch::Tensor& indices,
                          const torch::Tensor& latents, const QuantizerConfig& config,
                          const QuantizerStep& step) {
  const auto commitment = at::mse_loss(latents, codes.detach());
  Quantized result;
  result.loss = step.commitment ? config.beta * commitment : at::zeros_like(commitment);
  result.terms = {{"commitment", commitment.detach()}};
  result.indices = indices;
  result.latents = straight_through(codes, latents);
  return result;
}

Quantized fit_codes(const torch::Tensor& codes, const torch::Tensor& indices,
                    const torch::Tensor& latents, const QuantizerConfig& config,
                    const QuantizerStep& step) {
  auto result = commit_to_codes(codes, indices, latents, config, step);
  const auto embedding = at::mse_loss(codes, latents.detach());
  result.loss = embedding + result.loss;
  result.terms["embedding"] = embedding.detach();
  return result;
}

}  // namespace nsvq
