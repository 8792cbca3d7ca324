#include "nsvq/quantizers/nsvq.h"

#include "nsvq/quantizers/codebook.h"
#include "nsvq/quantizers/search.h"

namespace nsvq {

Quantized NonStationaryQuantizer::quantize(const torch::Tensor& latents,
                                           const QuantizerTerms& terms) {
  if (!terms.neighbours || config_.alpha == 0) return VectorQuantizer::quantize(latents, terms);
  const auto [indices, ns] = search_with_neighbours(flatten_latents(latents), codebook_, config_);
  const auto places = indices.view({latents.size(0), latents.size(2), latents.size(3)});
  auto result = quantize_to(places, latents, terms);
  result.loss = result.loss + config_.alpha * ns;
  result.terms["ns"] = ns.detach();
  return result;
}

}  // namespace nsvq
