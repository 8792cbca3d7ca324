#include "nsvq/quantizers/members.h"
#include "nsvq/quantizers/members/vq.h"
#include "nsvq/quantizers/neighbour_loss.h"

namespace nsvq {

namespace {

/// The paper's quantizer: plain vector quantization plus the non-stationary embedding loss, weight
/// alpha, which lets codes near a latent follow it although another code won.
class NonStationaryQuantizer : public VectorQuantizer {
 public:
  NonStationaryQuantizer(const QuantizerConfig& config, int64_t latent_dim)
      : VectorQuantizer(config, latent_dim), loss_(config, *this) {}

  void update_statistics(const StepOutputs& step) override;
  std::vector<torch::Tensor> statistics() override { return loss_.statistics(); }

 protected:
  Quantized quantize_wide(const torch::Tensor& latents, const QuantizerStep& step) override;

 private:
  NeighbourLoss loss_;
};

}  // namespace

Quantized NonStationaryQuantizer::quantize_wide(const torch::Tensor& latents,
                                                const QuantizerStep& step) {
  if (!step.extra_codebook_terms || config_.alpha == 0)
    return VectorQuantizer::quantize_wide(latents, step);
  return loss_.fit(scaled(codebook_), scaled(latents), step);
}

void NonStationaryQuantizer::update_statistics(const StepOutputs& step) {
  if (!loss_.has_running_mean()) return;
  loss_.update(code_vectors(), {scaled(step.latents), step.indices, step.seed, step.group});
}

QuantizerKind nsvq_kind() {
  return {.name = "nsvq",
          .summary = "plain vector quantization plus the NS loss",
          .make = make_member<NonStationaryQuantizer>,
          .replacement = "copy",
          .ns_loss = true};
}

}  // namespace nsvq
