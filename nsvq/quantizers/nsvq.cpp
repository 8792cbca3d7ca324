#include "nsvq/quantizers/nsvq.h"

#include "nsvq/quantizers/codebook.h"
#include "nsvq/quantizers/fit.h"
#include "nsvq/quantizers/search.h"

namespace nsvq {

Quantized NonStationaryQuantizer::quantize_wide(const torch::Tensor& latents,
                                                const QuantizerStep& step) {
  if (!step.neighbours || config_.alpha == 0) return VectorQuantizer::quantize_wide(latents, step);
  const auto [found, ns] = search_with_neighbours(flatten_latents(latents), codebook_, config_);
  const auto indices = to_places(found, latents);
  auto result = fit_codes(look_up(codebook_, indices), indices, latents, config_, step);
  result.loss = result.loss + config_.alpha * ns;
  result.terms["ns"] = ns.detach();
  return result;
}

}  // namespace nsvq
