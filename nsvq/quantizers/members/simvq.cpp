#include <torch/nn/modules/linear.h>

#include "nsvq/quantizers/codebook.h"
#include "nsvq/quantizers/members.h"
#include "nsvq/quantizers/members/mapped.h"
#include "nsvq/quantizers/neighbour_loss.h"

namespace nsvq {

namespace {

/// SimVQ: the codes are a trained linear map, with bias, of a Gaussian codebook that stays as it
/// was drawn.
class SimVq : public MappedQuantizer {
 public:
  SimVq(const QuantizerConfig& config, int64_t latent_dim);

  int64_t codes() const override { return frozen_.size(0); }

 protected:
  torch::Tensor mapped_codes() override;

 private:
  torch::Tensor frozen_;  ///< [K, d]
  torch::nn::Linear projection_;
};

/// SimVQ with the NS loss, weight alpha, which trains the linear map alone.
class NonStationarySimVq : public SimVq {
 public:
  NonStationarySimVq(const QuantizerConfig& config, int64_t latent_dim)
      : SimVq(config, latent_dim), loss_(config, *this) {}

  void update_statistics(const StepOutputs& step) override;
  std::vector<torch::Tensor> statistics() override { return loss_.statistics(); }

 protected:
  Quantized quantize_wide(const torch::Tensor& latents, const QuantizerStep& step) override;

 private:
  NeighbourLoss loss_;
};

}  // namespace

SimVq::SimVq(const QuantizerConfig& config, int64_t latent_dim)
    : MappedQuantizer(config),
      frozen_(register_buffer("codebook", initial_codebook("gaussian", config.codes, latent_dim))),
      projection_(register_module("projection", torch::nn::Linear(latent_dim, latent_dim))) {}

torch::Tensor SimVq::mapped_codes() {
  return at::linear(frozen_, projection_->weight, projection_->bias);
}

Quantized NonStationarySimVq::quantize_wide(const torch::Tensor& latents,
                                            const QuantizerStep& step) {
  if (!step.extra_codebook_terms || config_.alpha == 0) return SimVq::quantize_wide(latents, step);
  return loss_.fit(scaled_codes(), scaled(latents), step);
}

void NonStationarySimVq::update_statistics(const StepOutputs& step) {
  if (!loss_.has_running_mean()) return;
  loss_.update(code_vectors(), {scaled(step.latents), step.indices, step.seed, step.group});
}

QuantizerKind simvq_kind() {
  return {.name = "simvq",
          .summary = "a trained linear map of a frozen codebook",
          .make = make_member<SimVq>,
          .codebook = false};
}

QuantizerKind simvq_ns_kind() {
  return {.name = "simvq_ns",
          .summary = "simvq plus the NS loss",
          .make = make_member<NonStationarySimVq>,
          .codebook = false,
          .ns_loss = true};
}

}  // namespace nsvq
