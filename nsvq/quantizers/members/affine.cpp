#include "nsvq/core/error.h"
#include "nsvq/quantizers/codebook.h"
#include "nsvq/quantizers/members.h"
#include "nsvq/quantizers/members/mapped.h"

namespace nsvq {

namespace {

/// Affine reparameterisation: a trained codebook behind a scale and a shift per channel that all
/// codes share. Variant "learned": both are parameters. Variant "running": they map the codes'
/// mean and variance to the latents', both as running statistics.
class AffineQuantizer : public MappedQuantizer {
 public:
  AffineQuantizer(const QuantizerConfig& config, int64_t latent_dim);

  int64_t codes() const override { return codes_.size(0); }
  // No codebook() for replacements: the map would move the codes that they write.
  void update_statistics(const StepOutputs& step) override;
  std::vector<torch::Tensor> statistics() override;
  bool wants_data() const override { return starts_from_data(config_.init); }
  int64_t latents_wanted() const override { return latents_for_codes(config_.init, codes()); }
  void initialise_from(const torch::Tensor& latents, uint64_t seed) override;

 protected:
  Quantized quantize_wide(const torch::Tensor& latents, const QuantizerStep& step) override;
  torch::Tensor mapped_codes() override;

 private:
  bool learned() const { return settings_.variant == "learned"; }

  AffineConfig settings_;
  double weight_;                ///< of the embedding term
  torch::Tensor codes_;          ///< [K, d] before the map
  torch::Tensor scale_, shift_;  ///< learned: [d]
  torch::Tensor statistics_;     ///< running: [4, d], rows as in affine.cpp
  torch::Tensor started_;        ///< running: whether there are statistics, 0 or 1
};

enum AffineRow { kLatentMean, kLatentVariance, kCodeMean, kCodeVariance };

/// Mean and variance [2, d] of the rows [N, d] of all ranks, in fp64.
torch::Tensor moments_over_ranks(const torch::Tensor& rows, Group& group) {
  const auto wide = rows.to(at::kDouble);
  const auto count = at::full({1, rows.size(1)}, rows.size(0), wide.options());
  const auto sums = at::cat({count, wide.sum(0, true), wide.square().sum(0, true)});
  group.sum({sums});
  const auto mean = sums[1] / sums[0];
  return at::stack({mean, (sums[2] / sums[0] - mean.square()).clamp_min(0)});
}

torch::Tensor moments(const torch::Tensor& rows) {
  const auto wide = rows.to(at::kDouble);
  return at::stack({wide.mean(0), wide.var(0, /*unbiased=*/false)});
}

std::vector<Option> affine_options(QuantizerConfig& config) {
  auto& affine = config.of<AffineConfig>();
  return {
      {"quantizer.affine.variant", &affine.variant,
       "affine: shift and scale learned, or from running statistics",
       Range::one_of({"learned", "running"})},
      {"quantizer.affine.rate", &affine.rate, "factor on what is learned", Range::above(0)},
      {"quantizer.affine.momentum", &affine.momentum, "share of a batch in the running statistics",
       Range::between(0, 1)},
  };
}

}  // namespace

AffineQuantizer::AffineQuantizer(const QuantizerConfig& config, int64_t latent_dim)
    : MappedQuantizer(config),
      settings_(config.of<AffineConfig>()),
      weight_(config.beta),
      codes_(register_parameter("codebook", initial_codebook(config, latent_dim))) {
  if (config.beta <= 0 || config.beta > 1) {
    throw UserError(
        "quantizer.beta: affine weights the commitment 1 - beta and the codes beta, so it must be "
        "above 0 and at most 1, but it is {}",
        config.beta);
  }
  // The weights of fit_codes: beta [embedding + (1 - beta) / beta commitment].
  config_.beta = (1 - weight_) / weight_;
  if (learned()) {
    scale_ = register_parameter("scale", at::zeros({latent_dim}));
    shift_ = register_parameter("shift", at::zeros({latent_dim}));
  } else {
    const auto none = at::tensor({0.0f, 1.0f, 0.0f, 1.0f}).unsqueeze(1);
    statistics_ = register_buffer("statistics", none.repeat({1, latent_dim}));
    started_ = register_buffer("started", at::zeros({1}));
  }
}

Quantized AffineQuantizer::quantize_wide(const torch::Tensor& latents, const QuantizerStep& step) {
  auto result = MappedQuantizer::quantize_wide(latents, step);
  result.loss = weight_ * result.loss;
  return result;
}

torch::Tensor AffineQuantizer::mapped_codes() {
  if (learned()) {
    const double rate = settings_.rate;
    return codes_ * (1 + rate * scale_) + rate * shift_;
  }
  const auto scale = (statistics_[kLatentVariance] / (statistics_[kCodeVariance] + 1e-8)).sqrt();
  const auto mapped = (codes_ - statistics_[kCodeMean]) * scale + statistics_[kLatentMean];
  return at::where(started_.gt(0), mapped, codes_);
}

std::vector<torch::Tensor> AffineQuantizer::statistics() {
  if (learned()) return {};
  return {statistics_, started_};
}

void AffineQuantizer::update_statistics(const StepOutputs& step) {
  if (learned()) return;
  const torch::NoGradGuard no_grad;
  const auto now = at::cat({moments_over_ranks(step.latents, step.group), moments(codes_)});
  // The first statistics replace the initial ones.
  const auto share = 1 - (1 - settings_.momentum) * started_;
  statistics_.lerp_(now.to(statistics_), share);
  started_.fill_(1);
}

void AffineQuantizer::initialise_from(const torch::Tensor& latents, uint64_t seed) {
  codes_from_data(codes_, latents, config_.init, seed);
}

QuantizerKind affine_kind() {
  return {.name = "affine",
          .summary = "a codebook behind a shared scale and shift",
          .make = make_member<AffineQuantizer>,
          .options = affine_options,
          .defaults = {"quantizer.beta=0.95"},
          .refuses_norms = "fits the scale of its codes to that of the latents",
          .codebook = false,
          .weighs_commitment = false,
          .small = {"quantizer.affine.rate=0.5"}};
}

}  // namespace nsvq
