#pragma once

#include "nsvq/quantizers/quantizer.h"

namespace nsvq {

// z are latents, c their codes, |.|^2 is the mean over all elements, sg stops gradients.

/// The codes [B, d, h, w], bit for bit, whose gradient is passed to the latents unchanged, as if
/// quantization were not there.
torch::Tensor straight_through(const torch::Tensor& codes, const torch::Tensor& latents);

/// The codes, bit for bit, whose gradient is passed to the latents through the rotation and scaling
/// that map each latent to its code, both held constant (the rotation trick).
torch::Tensor rotate_through(const torch::Tensor& codes, const torch::Tensor& latents);

/// The one of the two that the recipe asks for (quantizer.rotation).
torch::Tensor pass_through(const torch::Tensor& codes, const torch::Tensor& latents,
                           const QuantizerConfig& config);

/// What a quantizer gives once the codes [B, d, h, w] of the winners are known, where no gradient
/// moves them: beta times the commitment |z - sg c|^2 if the step asks for it, and the codes with
/// gradients for the latents.
Quantized commit_to_codes(const torch::Tensor& codes, const torch::Tensor& indices,
                          const torch::Tensor& latents, const QuantizerConfig& config,
                          const QuantizerStep& step);

/// commit_to_codes plus the embedding term |sg z - c|^2 with its gradient for the codes.
Quantized fit_codes(const torch::Tensor& codes, const torch::Tensor& indices,
                    const torch::Tensor& latents, const QuantizerConfig& config,
                    const QuantizerStep& step);

/// Adds the penalties of a recipe on latents [B, d, h, w] to the loss of what a quantizer gave, and
/// their figures to its terms. Without weights it does nothing.
void penalise_latents(const torch::Tensor& latents, const LatentPenalties& weights,
                      Quantized& quantized);

}  // namespace nsvq
