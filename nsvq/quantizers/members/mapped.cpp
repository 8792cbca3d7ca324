#include "nsvq/quantizers/members/mapped.h"

#include <ATen/autocast_mode.h>

#include "nsvq/quantizers/codebook.h"
#include "nsvq/quantizers/losses_of_codes.h"
#include "nsvq/quantizers/search.h"

namespace nsvq {

Quantized MappedQuantizer::quantize_wide(const torch::Tensor& latents, const QuantizerStep& step) {
  const auto codes = mapped_codes();
  const auto found = nearest_indices(flatten_latents(latents), codes, config_, NonFinite::ignore);
  const auto indices = to_grid(found, latents);
  return fit_codes(look_up(codes, indices), indices, latents, config_, step);
}

torch::Tensor MappedQuantizer::encode_wide(const torch::Tensor& latents) {
  return to_grid(
      nearest_indices(flatten_latents(latents), mapped_codes(), config_, NonFinite::mark), latents);
}

// All codes are mapped, not only those asked for: the same product gives the same bits.
torch::Tensor MappedQuantizer::decode(const torch::Tensor& indices) {
  const c10::impl::ExcludeDispatchKeyGuard no_casts(c10::autocast_dispatch_keyset);
  return look_up(mapped_codes(), indices);
}

torch::Tensor MappedQuantizer::code_vectors() {
  const c10::impl::ExcludeDispatchKeyGuard no_casts(c10::autocast_dispatch_keyset);
  const torch::NoGradGuard no_grad;
  return mapped_codes();
}

}  // namespace nsvq
