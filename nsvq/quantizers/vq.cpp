#include "nsvq/quantizers/vq.h"

#include "nsvq/quantizers/codebook.h"
#include "nsvq/quantizers/search.h"

namespace nsvq {

VectorQuantizer::VectorQuantizer(const QuantizerConfig& config, int64_t latent_dim)
    : config_(config),
      codebook_(register_parameter("codebook",
                                   initial_codebook(config.init, config.codes, latent_dim))) {}

Quantized VectorQuantizer::quantize(const torch::Tensor& latents, const QuantizerTerms& terms) {
  return quantize_to(encode(latents), latents, terms);
}

Quantized VectorQuantizer::quantize_to(const torch::Tensor& indices, const torch::Tensor& latents,
                                       const QuantizerTerms& terms) {
  const auto codes = look_up(codebook_, indices);

  const auto embedding = at::mse_loss(codes, latents.detach());
  const auto commitment = at::mse_loss(latents, codes.detach());
  Quantized result;
  result.loss = terms.commitment ? embedding + config_.beta * commitment : embedding;
  result.terms = {{"embedding", embedding.detach()}, {"commitment", commitment.detach()}};
  result.indices = indices;
  // Forward: the codes, bit for bit, since what is added is zero. Backward: the identity, as if
  // quantization were not there.
  result.latents = codes.detach() + (latents - latents.detach());
  return result;
}

torch::Tensor VectorQuantizer::encode(const torch::Tensor& latents) {
  return nearest_indices(flatten_latents(latents), codebook_, config_)
      .view({latents.size(0), latents.size(2), latents.size(3)});
}

torch::Tensor VectorQuantizer::decode(const torch::Tensor& indices) {
  return look_up(codebook_, indices);
}

void VectorQuantizer::initialise_from(const torch::Tensor& latents, uint64_t seed) {
  sample_codes(codebook_, latents, seed);
}

}  // namespace nsvq
