#pragma once

#include "nsvq/quantizers/quantizer.h"

namespace nsvq {

/// Adds the penalties of a recipe on latents [B, d, h, w] to the loss of what a quantizer gave, and
/// their figures to its terms. Without weights it does nothing.
void penalise_latents(const torch::Tensor& latents, const LatentPenalties& weights,
                      Quantized& quantized);

}  // namespace nsvq
