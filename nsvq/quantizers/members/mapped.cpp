#include "nsvq/quantizers/members/mapped.h"

#include <ATen/autocast_mode.h>

#include "nsvq/ops/code_search/nearest_codes_cosine.h"
#include "nsvq/quantizers/codebook.h"
#include "nsvq/quantizers/losses_of_codes.h"
#include "nsvq/quantizers/search.h"

namespace nsvq {

Quantized MappedQuantizer::quantize_wide(const torch::Tensor& latents, const QuantizerStep& step) {
  const auto z = scaled(latents), codes = scaled_codes();
  const auto found = nearest_indices(flatten_latents(z), codes, config_, NonFinite::ignore);
  const auto indices = to_grid(found, latents);
  return fit_codes(look_up(codes, indices), indices, z, config_, step);
}

torch::Tensor MappedQuantizer::encode_wide(const torch::Tensor& latents) {
  const auto flat = flatten_latents(scaled(latents));
  return to_grid(nearest_indices(flat, scaled_codes(), config_, NonFinite::mark), latents);
}

torch::Tensor MappedQuantizer::scaled(const torch::Tensor& vectors) const {
  return config_.normalise ? unit_vectors(vectors) : vectors;
}

Distance MappedQuantizer::distance() const {
  return config_.normalise ? Distance::cosine : Distance::l2;
}

// All codes are mapped, not only those asked for: the same product gives the same bits.
torch::Tensor MappedQuantizer::decode(const torch::Tensor& indices) {
  const c10::impl::ExcludeDispatchKeyGuard no_casts(c10::autocast_dispatch_keyset);
  return look_up(scaled_codes(), indices);
}

torch::Tensor MappedQuantizer::code_vectors() {
  const c10::impl::ExcludeDispatchKeyGuard no_casts(c10::autocast_dispatch_keyset);
  const torch::NoGradGuard no_grad;
  return scaled_codes();
}

}  // namespace nsvq
