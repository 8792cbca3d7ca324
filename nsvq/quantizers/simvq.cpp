#include "nsvq/quantizers/simvq.h"

#include "nsvq/quantizers/codebook.h"

namespace nsvq {

SimVq::SimVq(const QuantizerConfig& config, int64_t latent_dim)
    : MappedQuantizer(config),
      frozen_(register_buffer("codebook", initial_codebook("gaussian", config.codes, latent_dim))),
      projection_(register_module("projection", torch::nn::Linear(latent_dim, latent_dim))) {}

torch::Tensor SimVq::mapped_codes() {
  return at::linear(frozen_, projection_->weight, projection_->bias);
}

}  // namespace nsvq
