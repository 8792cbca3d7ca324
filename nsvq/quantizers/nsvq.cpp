#include "nsvq/quantizers/nsvq.h"

#include "nsvq/ops/ns_loss.h"
#include "nsvq/quantizers/codebook.h"

namespace nsvq {

Quantized NonStationaryQuantizer::quantize(const torch::Tensor& latents,
                                           const QuantizerTerms& terms) {
  auto result = VectorQuantizer::quantize(latents, terms);
  if (!terms.neighbours || config_.alpha == 0) return result;
  const auto ns =
      ns_loss(flatten_latents(latents), codebook_, result.indices.flatten(), config_.tau);
  result.loss = result.loss + config_.alpha * ns;
  result.terms["ns"] = ns.detach();
  return result;
}

}  // namespace nsvq
