#include "nsvq/quantizers/fvq.h"

#include "nsvq/quantizers/codebook.h"
#include "nsvq/quantizers/fit.h"
#include "nsvq/quantizers/search.h"

namespace nsvq {

BridgedQuantizer::BridgedQuantizer(const QuantizerConfig& config, int64_t latent_dim)
    : config_(config),
      bridge_(register_module(
          "bridge", std::make_shared<CodeBridgeImpl>(config.bridge, config.codes, latent_dim))),
      embedding_(
          register_parameter("embedding", initial_codebook("uniform", config.codes, latent_dim))) {}

torch::Tensor BridgedQuantizer::code_vectors() {
  const torch::NoGradGuard no_grad;
  return bridge_->forward(embedding_);
}

Quantized BridgedQuantizer::quantize_wide(const torch::Tensor& latents, const QuantizerStep& step) {
  const auto codes = bridge_->forward(embedding_);
  const auto found = nearest_indices(flatten_latents(latents.detach()), codes.detach(), config_);
  const auto indices = to_places(found, latents);
  return fit_codes(look_up(codes, indices), indices, latents, config_, step);
}

torch::Tensor BridgedQuantizer::encode_wide(const torch::Tensor& latents) {
  return to_places(nearest_indices(flatten_latents(latents), code_vectors(), config_), latents);
}

torch::Tensor BridgedQuantizer::decode(const torch::Tensor& indices) {
  return look_up(code_vectors(), indices);
}

}  // namespace nsvq
