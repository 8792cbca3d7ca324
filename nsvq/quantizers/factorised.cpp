#include "nsvq/quantizers/factorised.h"

#include "nsvq/quantizers/codebook.h"
#include "nsvq/quantizers/fit.h"
#include "nsvq/quantizers/search.h"

namespace nsvq {

namespace {

/// Vectors along dimension 1, scaled to length 1; those of length 0 stay.
torch::Tensor of_length_one(const torch::Tensor& vectors) {
  return vectors / at::linalg_vector_norm(vectors, 2, 1, /*keepdim=*/true).clamp_min(1e-12);
}

}  // namespace

FactorisedQuantizer::FactorisedQuantizer(const QuantizerConfig& config, int64_t latent_dim)
    : VectorQuantizer(config, latent_dim) {
  const torch::NoGradGuard no_grad;
  codebook_.copy_(of_length_one(codebook_));
}

Quantized FactorisedQuantizer::quantize_wide(const torch::Tensor& latents,
                                             const QuantizerStep& step) {
  const auto directions = of_length_one(latents);
  const auto codes = of_length_one(codebook_);
  const auto found = nearest_indices(flatten_latents(directions.detach()), codes.detach(), config_);
  const auto indices = to_places(found, latents);
  return fit_codes(look_up(codes, indices), indices, directions, config_, step);
}

torch::Tensor FactorisedQuantizer::encode_wide(const torch::Tensor& latents) {
  const auto flat = flatten_latents(of_length_one(latents));
  return to_places(nearest_indices(flat, of_length_one(codebook_), config_), latents);
}

torch::Tensor FactorisedQuantizer::decode(const torch::Tensor& indices) {
  return look_up(of_length_one(codebook_), indices);
}

torch::Tensor FactorisedQuantizer::code_vectors() { return of_length_one(codebook_.detach()); }

void FactorisedQuantizer::initialise_from(const torch::Tensor& latents, uint64_t seed) {
  VectorQuantizer::initialise_from(of_length_one(latents), seed);
}

}  // namespace nsvq
