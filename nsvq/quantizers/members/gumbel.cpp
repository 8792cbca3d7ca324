#include <torch/nn/modules/linear.h>

#include <cmath>
#include <numbers>

#include "nsvq/quantizers/codebook.h"
#include "nsvq/quantizers/losses_of_codes.h"
#include "nsvq/quantizers/members.h"
#include "nsvq/quantizers/members/softmax_codes.h"
#include "nsvq/quantizers/quantizer.h"
#include "nsvq/quantizers/search.h"

namespace nsvq {

namespace {

/// Gumbel quantization (taming-transformers, DALL-E): logits of the codes are a linear projection
/// of the latent; training draws a code by Gumbel noise, one-hot straight through a softmax whose
/// temperature falls along a cosine; evaluation uses the largest logit. The loss is the divergence
/// of the softmax from equal use.
class GumbelQuantizer : public Quantizer {
 public:
  GumbelQuantizer(const QuantizerConfig& config, int64_t latent_dim);

  torch::Tensor decode(const torch::Tensor& indices) override;
  int64_t codes() const override { return codebook_.size(0); }

 protected:
  Quantized quantize_wide(const torch::Tensor& latents, const QuantizerStep& step) override;
  torch::Tensor encode_wide(const torch::Tensor& latents) override;

 private:
  GumbelConfig settings_;
  torch::nn::Linear projection_{nullptr};
  torch::Tensor codebook_;  ///< [K, d]; latents are not compared with it
};

std::vector<Option> gumbel_options(QuantizerConfig& config) {
  auto& gumbel = config.of<GumbelConfig>();
  return {
      {"quantizer.gumbel.temperature", &gumbel.temperature, "gumbel: temperature at the start",
       Range::above(0)},
      {"quantizer.gumbel.last_temperature", &gumbel.last_temperature, "and at the end of a cosine",
       Range::above(0)},
      {"quantizer.gumbel.anneal_steps", &gumbel.anneal_steps, "steps of that cosine",
       Range::at_least(1)},
      {"quantizer.gumbel.kl", &gumbel.kl, "weight of the divergence from equal use",
       Range::at_least(0)},
  };
}

}  // namespace

torch::Tensor gumbel_temperature(const GumbelConfig& config, const torch::Tensor& step) {
  const auto share = (step / static_cast<double>(config.anneal_steps)).clamp_max(1);
  const auto high = (1 + (share * std::numbers::pi).cos()) / 2;
  return config.last_temperature + (config.temperature - config.last_temperature) * high;
}

GumbelQuantizer::GumbelQuantizer(const QuantizerConfig& config, int64_t latent_dim)
    : settings_(config.of<GumbelConfig>()),
      projection_(register_module("projection", torch::nn::Linear(latent_dim, config.codes))),
      codebook_(register_parameter("codebook", initial_codebook(config, latent_dim))) {}

Quantized GumbelQuantizer::quantize_wide(const torch::Tensor& latents, const QuantizerStep& step) {
  const auto flat = flatten_latents(step.commitment ? latents : latents.detach());
  const auto &weights = projection_->weight, &offsets = projection_->bias;
  const auto drawn = winning_codes(
      flat, {weights, offsets}, codebook_,
      {gumbel_temperature(settings_, global_step(step, flat)), step.seed, step.first_row(flat)});
  const auto divergence =
      std::log(static_cast<double>(codes())) - drawn.entropy / static_cast<double>(flat.size(0));
  Quantized result;
  result.latents = to_nchw(drawn.codes, latents);
  result.indices = to_grid(drawn.indices, latents);
  result.loss = settings_.kl * divergence;
  result.terms = {{"commitment", at::mse_loss(latents.detach(), result.latents.detach())},
                  {"divergence", divergence.detach()}};
  return result;
}

torch::Tensor GumbelQuantizer::encode_wide(const torch::Tensor& latents) {
  const auto found =
      largest_logits(flatten_latents(latents), {projection_->weight, projection_->bias});
  return with_policy(to_grid(found, latents), latents, NonFinite::mark);
}

torch::Tensor GumbelQuantizer::decode(const torch::Tensor& indices) {
  return look_up(codebook_, indices);
}

QuantizerKind gumbel_kind() {
  return {.name = "gumbel",
          .summary = "codes drawn by Gumbel noise, straight through",
          .make = make_member<GumbelQuantizer>,
          .options = gumbel_options,
          .defaults = {"quantizer.init=normal"},
          .rotates = false,
          .refuses_norms = "chooses by a projection of the latents",
          .codebook = false,
          .weighs_commitment = false,
          .small = {"quantizer.gumbel.anneal_steps=30"},
          .straight_through = false};
}

}  // namespace nsvq
