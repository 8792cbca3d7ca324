#include "nsvq/quantizers/simvq_ns.h"

#include "nsvq/quantizers/fit.h"

namespace nsvq {

Quantized NonStationarySimVq::quantize_wide(const torch::Tensor& latents,
                                            const QuantizerStep& step) {
  if (!step.neighbours || config_.alpha == 0) return SimVq::quantize_wide(latents, step);
  return fit_with_neighbours(mapped_codes(), latents, config_, step);
}

}  // namespace nsvq
