#include "nsvq/ops/code_search/nearest_codes_cosine.h"
#include "nsvq/quantizers/codebook.h"
#include "nsvq/quantizers/losses_of_codes.h"
#include "nsvq/quantizers/members.h"
#include "nsvq/quantizers/members/vq.h"
#include "nsvq/quantizers/search.h"

namespace nsvq {

namespace {

/// Codes and latents of length 1 (VQGAN-FC): search, losses and the decoder's input use the
/// normalised vectors. The few channels that the name stands for are model.latent_dim.
class FactorisedQuantizer : public VectorQuantizer {
 public:
  FactorisedQuantizer(const QuantizerConfig& config, int64_t latent_dim);

  torch::Tensor decode(const torch::Tensor& indices) override;
  torch::Tensor code_vectors() override;
  Distance distance() const override { return Distance::cosine; }
  void initialise_from(const torch::Tensor& latents, uint64_t seed) override;

 protected:
  Quantized quantize_wide(const torch::Tensor& latents, const QuantizerStep& step) override;
  torch::Tensor encode_wide(const torch::Tensor& latents) override;
};

}  // namespace

FactorisedQuantizer::FactorisedQuantizer(const QuantizerConfig& config, int64_t latent_dim)
    : VectorQuantizer(config, latent_dim) {
  const torch::NoGradGuard no_grad;
  codebook_.copy_(unit_vectors(codebook_));
}

Quantized FactorisedQuantizer::quantize_wide(const torch::Tensor& latents,
                                             const QuantizerStep& step) {
  const auto directions = unit_vectors(latents);
  const auto codes = unit_vectors(codebook_);
  const auto found =
      nearest_indices(flatten_latents(directions), codes, config_, NonFinite::ignore);
  const auto indices = to_grid(found, latents);
  return fit_codes(look_up(codes, indices), indices, directions, config_, step);
}

torch::Tensor FactorisedQuantizer::encode_wide(const torch::Tensor& latents) {
  const auto flat = flatten_latents(unit_vectors(latents));
  return to_grid(nearest_indices(flat, unit_vectors(codebook_), config_, NonFinite::mark), latents);
}

torch::Tensor FactorisedQuantizer::decode(const torch::Tensor& indices) {
  return look_up(unit_vectors(codebook_), indices);
}

torch::Tensor FactorisedQuantizer::code_vectors() { return unit_vectors(codebook_.detach()); }

void FactorisedQuantizer::initialise_from(const torch::Tensor& latents, uint64_t seed) {
  VectorQuantizer::initialise_from(unit_vectors(latents), seed);
}

QuantizerKind factorised_kind() {
  return {.name = "factorised",
          .summary = "latents and codes of length 1, as in VQGAN-FC",
          .make = make_member<FactorisedQuantizer>,
          .defaults = {"quantizer.init=uniform"},
          .straight_through = false};
}

}  // namespace nsvq
