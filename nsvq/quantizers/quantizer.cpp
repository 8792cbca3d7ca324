#include "nsvq/quantizers/quantizer.h"

#include <ATen/autocast_mode.h>

#include "nsvq/core/precision.h"
#include "nsvq/quantizers/losses_of_codes.h"
#include "nsvq/quantizers/search.h"

namespace nsvq {

Quantized Quantizer::quantize(const torch::Tensor& latents, const QuantizerStep& step) {
  const c10::impl::ExcludeDispatchKeyGuard no_casts(c10::autocast_dispatch_keyset);
  const auto wide = at_least_fp32(latents);
  auto quantized = quantize_wide(wide, step);
  if (step.commitment) penalise_latents(wide, penalties_, quantized);
  return quantized;
}

torch::Tensor Quantizer::encode(const torch::Tensor& latents) {
  auto indices = encode_without_waiting(latents);
  if (!indices.is_cpu()) throw_if_marked(indices);  // a CPU has checked already
  return indices;
}

torch::Tensor Quantizer::encode_without_waiting(const torch::Tensor& latents) {
  const c10::impl::ExcludeDispatchKeyGuard no_casts(c10::autocast_dispatch_keyset);
  const torch::NoGradGuard no_grad;
  return encode_wide(at_least_fp32(latents));
}

Assignment Quantizer::assign(const torch::Tensor& latents) {
  auto assigned = assign_without_waiting(latents);
  if (!assigned.indices.is_cpu()) throw_if_marked(assigned.indices);
  return assigned;
}

Assignment Quantizer::assign_without_waiting(const torch::Tensor& latents) {
  const torch::NoGradGuard no_grad;
  const auto indices = encode_without_waiting(latents);
  return {decode(indices.clamp_min(0)), indices};
}

}  // namespace nsvq
