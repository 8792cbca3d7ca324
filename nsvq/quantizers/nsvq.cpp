#include "nsvq/quantizers/losses_of_codes.h"
#include "nsvq/quantizers/members.h"
#include "nsvq/quantizers/vq.h"

namespace nsvq {

namespace {

/// The paper's quantizer: plain vector quantization plus the non-stationary embedding loss, weight
/// alpha, which lets codes near a latent follow it although another code won.
class NonStationaryQuantizer : public VectorQuantizer {
 public:
  using VectorQuantizer::VectorQuantizer;

 protected:
  Quantized quantize_wide(const torch::Tensor& latents, const QuantizerStep& step) override;
};

}  // namespace

Quantized NonStationaryQuantizer::quantize_wide(const torch::Tensor& latents,
                                                const QuantizerStep& step) {
  if (!step.extra_codebook_terms || config_.alpha == 0)
    return VectorQuantizer::quantize_wide(latents, step);
  return fit_with_neighbours(codebook_, latents, config_, step);
}

QuantizerKind nsvq_kind() {
  return {.name = "nsvq",
          .summary = "plain vector quantization plus the NS loss",
          .make = make_member<NonStationaryQuantizer>,
          .replacement = "copy"};
}

}  // namespace nsvq
