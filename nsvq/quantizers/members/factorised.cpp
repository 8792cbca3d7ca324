#include "nsvq/quantizers/members.h"
#include "nsvq/quantizers/members/vq.h"

namespace nsvq {

namespace {

/// Codes and latents of length 1 (VQGAN-FC): plain vector quantization with quantizer.normalise.
/// The few channels that the name stands for are model.latent_dim.
class FactorisedQuantizer : public VectorQuantizer {
 public:
  FactorisedQuantizer(const QuantizerConfig& config, int64_t latent_dim)
      : VectorQuantizer(normalising(config), latent_dim) {}

  /// Meters and policies see lengths, other than with quantizer.normalise.
  torch::Tensor compared(const torch::Tensor& latents) const override { return latents; }

 private:
  static QuantizerConfig normalising(QuantizerConfig config) {
    config.normalise = true;
    return config;
  }
};

}  // namespace

QuantizerKind factorised_kind() {
  return {.name = "factorised",
          .summary = "latents and codes of length 1, as in VQGAN-FC",
          .make = make_member<FactorisedQuantizer>,
          .defaults = {"quantizer.init=uniform"},
          .refuses_norms = "divides latents and codes by their norms in any case",
          .straight_through = false};
}

}  // namespace nsvq
