#include "nsvq/quantizers/vq.h"

#include "nsvq/quantizers/codebook.h"
#include "nsvq/quantizers/fit.h"
#include "nsvq/quantizers/search.h"

namespace nsvq {

VectorQuantizer::VectorQuantizer(const QuantizerConfig& config, int64_t latent_dim)
    : config_(config),
      codebook_(register_parameter("codebook",
                                   initial_codebook(config.init, config.codes, latent_dim))) {}

Quantized VectorQuantizer::quantize_wide(const torch::Tensor& latents, const QuantizerStep& step) {
  const auto indices = encode(latents);
  return fit_codes(look_up(codebook_, indices), indices, latents, config_, step);
}

torch::Tensor VectorQuantizer::encode_wide(const torch::Tensor& latents) {
  return to_places(nearest_indices(flatten_latents(latents), codebook_, config_), latents);
}

torch::Tensor VectorQuantizer::decode(const torch::Tensor& indices) {
  return look_up(codebook_, indices);
}

void VectorQuantizer::initialise_from(const torch::Tensor& latents, uint64_t seed) {
  sample_codes(codebook_, latents, seed);
}

}  // namespace nsvq
