#include "nsvq/core/error.h"
#include "nsvq/core/precision.h"
#include "nsvq/quantizers/members.h"
#include "nsvq/quantizers/quantizer.h"

namespace nsvq {

namespace {

/// No quantizer: latents reach the decoder unchanged, so that the model is a continuous
/// autoencoder. It has no codes, no tokens, no loss and nothing that trains.
class NoQuantizer : public Quantizer {
 public:
  NoQuantizer(const QuantizerConfig& config, int64_t latent_dim);

  /// Throws UserError, as do the functions that encode: there are no indices.
  torch::Tensor decode(const torch::Tensor& indices) override;
  int64_t codes() const override { return 0; }
  Assignment assign_without_waiting(const torch::Tensor& latents) override;

 protected:
  Quantized quantize_wide(const torch::Tensor& latents, const QuantizerStep& step) override;
  torch::Tensor encode_wide(const torch::Tensor& latents) override;
};

/// Indices of an empty grid.
torch::Tensor no_indices(const torch::Tensor& latents) {
  return at::empty({latents.size(0), 0, 0}, latents.options().dtype(at::kLong));
}

[[noreturn]] void refuse_tokens() {
  throw UserError(
      "quantizer.type is none: a continuous autoencoder has no tokens; reconstruct images with it, "
      "or train with another quantizer");
}

}  // namespace

NoQuantizer::NoQuantizer(const QuantizerConfig& /*config*/, int64_t /*latent_dim*/) {}

Quantized NoQuantizer::quantize_wide(const torch::Tensor& latents, const QuantizerStep& /*step*/) {
  Quantized result;
  result.latents = latents;
  result.indices = no_indices(latents);
  result.loss = at::zeros({}, latents.options());
  result.terms = {{"commitment", result.loss}};
  return result;
}

Assignment NoQuantizer::assign_without_waiting(const torch::Tensor& latents) {
  return {at_least_fp32(latents), no_indices(latents)};
}

torch::Tensor NoQuantizer::encode_wide(const torch::Tensor& /*latents*/) { refuse_tokens(); }

torch::Tensor NoQuantizer::decode(const torch::Tensor& /*indices*/) { refuse_tokens(); }

QuantizerKind none_kind() {
  return {.name = "none",
          .summary = "a continuous autoencoder: latents pass unchanged, there are no tokens",
          .make = make_member<NoQuantizer>,
          .defaults = {"schedule.phases=[stage1]"},
          .rotates = false,
          .refuses_norms = "has no codes",
          .codebook = false,
          .tokens = false,
          .weighs_commitment = false,
          .any_codes = false};
}

}  // namespace nsvq
