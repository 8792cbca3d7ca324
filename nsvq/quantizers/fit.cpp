#include "nsvq/quantizers/fit.h"

namespace nsvq {

torch::Tensor straight_through(const torch::Tensor& codes, const torch::Tensor& latents) {
  return codes.detach() + (latents - latents.detach());  // what is added is zero
}

Quantized fit_codes(const torch::Tensor& codes, const torch::Tensor& indices,
                    const torch::Tensor& latents, const QuantizerConfig& config,
                    const QuantizerStep& step) {
  const auto embedding = at::mse_loss(codes, latents.detach());
  const auto commitment = at::mse_loss(latents, codes.detach());
  Quantized result;
  result.loss = step.commitment ? embedding + config.beta * commitment : embedding;
  result.terms = {{"embedding", embedding.detach()}, {"commitment", commitment.detach()}};
  result.indices = indices;
  result.latents = straight_through(codes, latents);
  return result;
}

}  // namespace nsvq
