#include "nsvq/quantizers/members/vq.h"

#include "nsvq/quantizers/losses_of_codes.h"
#include "nsvq/quantizers/members.h"

namespace nsvq {

VectorQuantizer::VectorQuantizer(const QuantizerConfig& config, int64_t latent_dim)
    : VectorQuantizer(config, latent_dim, MovedBy::gradients) {}

VectorQuantizer::VectorQuantizer(const QuantizerConfig& config, int64_t latent_dim,
                                 MovedBy moved_by)
    : config_(config) {
  const auto codes = initial_codebook(config, latent_dim);
  codebook_ = moved_by == MovedBy::gradients ? register_parameter("codebook", codes)
                                             : register_buffer("codebook", codes);
}

Quantized VectorQuantizer::quantize_wide(const torch::Tensor& latents, const QuantizerStep& step) {
  const auto indices = to_grid(search(flatten_latents(latents), NonFinite::ignore), latents);
  return fit_codes(look_up(codebook_, indices), indices, latents, config_, step);
}

torch::Tensor VectorQuantizer::encode_wide(const torch::Tensor& latents) {
  return to_grid(search(flatten_latents(latents), NonFinite::mark), latents);
}

torch::Tensor VectorQuantizer::search(const torch::Tensor& rows, NonFinite policy) {
  return nearest_indices(rows, codebook_, config_, policy);
}

torch::Tensor VectorQuantizer::decode(const torch::Tensor& indices) {
  return look_up(codebook_, indices);
}

void VectorQuantizer::initialise_from(const torch::Tensor& latents, uint64_t seed) {
  codes_from_data(codebook_, latents, config_.init, seed);
}

QuantizerKind vq_kind() {
  return {.name = "vq",
          .summary = "plain vector quantization, as in VQGAN",
          .make = make_member<VectorQuantizer>};
}

}  // namespace nsvq
