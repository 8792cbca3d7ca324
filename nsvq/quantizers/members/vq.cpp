#include "nsvq/quantizers/members/vq.h"

#include "nsvq/ops/code_search/nearest_codes_cosine.h"
#include "nsvq/quantizers/losses_of_codes.h"
#include "nsvq/quantizers/members.h"

namespace nsvq {

VectorQuantizer::VectorQuantizer(const QuantizerConfig& config, int64_t latent_dim)
    : VectorQuantizer(config, latent_dim, MovedBy::gradients) {}

VectorQuantizer::VectorQuantizer(const QuantizerConfig& config, int64_t latent_dim,
                                 MovedBy moved_by)
    : config_(config) {
  const auto codes = scaled(initial_codebook(config, latent_dim));
  codebook_ = moved_by == MovedBy::gradients ? register_parameter("codebook", codes)
                                             : register_buffer("codebook", codes);
}

Quantized VectorQuantizer::quantize_wide(const torch::Tensor& latents, const QuantizerStep& step) {
  const auto z = scaled(latents), codes = scaled(codebook_);
  const auto indices = to_grid(search(flatten_latents(z), codes, NonFinite::ignore), latents);
  return fit_codes(look_up(codes, indices), indices, z, config_, step);
}

torch::Tensor VectorQuantizer::encode_wide(const torch::Tensor& latents) {
  const auto found = search(flatten_latents(scaled(latents)), scaled(codebook_), NonFinite::mark);
  return to_grid(found, latents);
}

torch::Tensor VectorQuantizer::search(const torch::Tensor& rows, const torch::Tensor& codes,
                                      NonFinite policy) {
  return nearest_indices(rows, codes, config_, policy);
}

torch::Tensor VectorQuantizer::scaled(const torch::Tensor& vectors) const {
  return config_.normalise ? unit_vectors(vectors) : vectors;
}

torch::Tensor VectorQuantizer::decode(const torch::Tensor& indices) {
  return look_up(scaled(codebook_), indices);
}

torch::Tensor VectorQuantizer::code_vectors() {
  return config_.normalise ? unit_vectors(codebook_.detach()) : codebook_;
}

/// The nearest of unit vectors has the least angle.
Distance VectorQuantizer::distance() const {
  return config_.normalise ? Distance::cosine : Distance::l2;
}

void VectorQuantizer::initialise_from(const torch::Tensor& latents, uint64_t seed) {
  codes_from_data(codebook_, scaled(latents), config_.init, seed);
}

QuantizerKind vq_kind() {
  return {.name = "vq",
          .summary = "plain vector quantization, as in VQGAN",
          .make = make_member<VectorQuantizer>};
}

}  // namespace nsvq
