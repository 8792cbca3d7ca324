#include "nsvq/quantizers/nsvq.h"

#include "nsvq/quantizers/losses_of_codes.h"

namespace nsvq {

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
