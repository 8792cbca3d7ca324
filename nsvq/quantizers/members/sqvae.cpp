#include <cmath>

#include "nsvq/ops/soft_assignment/soft_assignment.h"
#include "nsvq/quantizers/codebook.h"
#include "nsvq/quantizers/losses_of_codes.h"
#include "nsvq/quantizers/members.h"
#include "nsvq/quantizers/members/softmax_codes.h"
#include "nsvq/quantizers/members/vq.h"

namespace nsvq {

namespace {

/// SQ-VAE with Gaussian quantization (Takida et al., 2022): a latent is a code plus noise of a
/// learned variance, 1 + exp(s). Training uses a Gumbel-softmax mean of the codes, whose
/// temperature falls with the steps; evaluation the nearest code. The loss is the paper's
/// divergence per image: (sum p log p + sum |z - z_q|^2 / (2 variance)) / B.
class StochasticQuantizer : public VectorQuantizer {
 public:
  StochasticQuantizer(const QuantizerConfig& config, int64_t latent_dim);

 protected:
  Quantized quantize_wide(const torch::Tensor& latents, const QuantizerStep& step) override;

 private:
  SqvaeConfig settings_;
  torch::Tensor log_variance_;  ///< s, a scalar
};

std::vector<Option> sqvae_options(QuantizerConfig& config) {
  auto& sqvae = config.of<SqvaeConfig>();
  return {
      {"quantizer.sqvae.variance", &sqvae.variance,
       "sqvae: variance of the latents about their codes at the start, above 1", Range::above(1)},
      {"quantizer.sqvae.anneal", &sqvae.anneal,
       "rate by which the temperature falls, exp(-rate step)", Range::at_least(0)},
  };
}

}  // namespace

StochasticQuantizer::StochasticQuantizer(const QuantizerConfig& config, int64_t latent_dim)
    : VectorQuantizer(config, latent_dim),
      settings_(config.of<SqvaeConfig>()),
      log_variance_(
          register_parameter("log_variance", at::full({}, std::log(settings_.variance - 1)))) {}

Quantized StochasticQuantizer::quantize_wide(const torch::Tensor& latents,
                                             const QuantizerStep& step) {
  const auto given = step.commitment ? latents : latents.detach();
  const auto flat = flatten_latents(given);
  const auto variance = 1 + log_variance_.exp();
  // -|z - c|^2 / (2 variance) but for the latent's own norm, which no softmax sees.
  const CodeLogits logits = {codebook_ / variance, codebook_.square().sum(1) / (-2 * variance)};
  Quantized result;
  torch::Tensor codes;
  if (step.seed) {
    const auto temperature = (-settings_.anneal * global_step(step, flat)).exp();
    const auto soft =
        mean_codes(flat, logits, codebook_, {temperature, step.seed, step.first_row(flat)});
    result.indices = to_grid(soft.indices, latents);
    codes = to_nchw(soft.codes, latents);
    result.latents = codes;
  } else {
    result.indices = encode(latents);
    codes = look_up(codebook_, result.indices);
    result.latents = straight_through(codes, given);
  }
  const auto images = static_cast<double>(latents.size(0));
  const auto entropy = soft_assignment_of_logits(flat, logits.weights, logits.offsets).entropy;
  const auto spread = (given - codes).square().sum() / (2 * variance);
  result.loss = (spread - entropy) / images;
  result.terms = {{"commitment", at::mse_loss(latents.detach(), codes.detach())},
                  {"entropy", entropy.detach() / static_cast<double>(flat.size(0))},
                  {"variance", variance.detach()}};
  return result;
}

QuantizerKind sqvae_kind() {
  return {.name = "sqvae",
          .summary = "a soft choice of codes that hardens (SQ-VAE)",
          .make = make_member<StochasticQuantizer>,
          .options = sqvae_options,
          .defaults = {"quantizer.init=normal"},
          .rotates = false,
          .refuses_norms = "models the distance of latents and codes, in which lengths count",
          .weighs_commitment = false,
          .small = {"quantizer.sqvae.anneal=0.05"}};
}

}  // namespace nsvq
