#include "nsvq/train/vq/objective.h"

#include <utility>

namespace nsvq {

namespace {

/// What a frozen quantizer gives: what its tokens decode to, as in an evaluation, and no loss.
Quantized quantize_frozen(Quantizer& quantizer, const torch::Tensor& latents) {
  const auto assigned = quantizer.assign_without_waiting(latents);
  Quantized result;
  result.latents = assigned.latents;
  result.indices = assigned.indices.clamp_min(0);  // without a code, the commitment is NaN
  result.loss = at::zeros({}, assigned.latents.options());
  result.terms = {
      {"commitment", at::mse_loss(quantizer.compared(latents.detach()), assigned.latents)}};
  return result;
}

}  // namespace

Objective::Objective(const TokenizerConfig& config, Tokenizer& model, c10::Device device,
                     std::shared_ptr<Group> group)
    : model_(model),
      device_(device),
      group_(std::move(group)),
      vq_weight_(config.loss.vq),
      shared_entropy_(config.dist.entropy == "all"),
      losses_(make_losses(config.loss, config.data.size, device)) {
  if (config.adversarial.weight > 0) adversary_.emplace(config, device, group_);
}

/// Number of a pass's images among the equal parts of all ranks and passes.
int64_t Objective::part_of(const SlicePass& pass) const {
  return group_->rank() * pass.count + pass.number;
}

QuantizerStep Objective::quantizer_terms(const Phase& phase, const StepInputs& inputs,
                                         const SlicePass& pass) const {
  return {.commitment = phase.commitment,                      // beta |z_e - sg z_q|^2
          .extra_codebook_terms = phase.extra_codebook_terms,  // alpha L_NS
          .step = inputs.step,
          .seed = inputs.noise_seed,
          .part = part_of(pass),
          .entropy_group = shared_entropy_ ? group_.get() : nullptr};
}

Quantized Objective::quantize(const torch::Tensor& latents, const Phase& phase,
                              const StepInputs& inputs, const SlicePass& pass) const {
  auto& quantizer = *model_->quantizer;
  return phase.train_quantizer ? quantizer.quantize(latents, quantizer_terms(phase, inputs, pass))
                               : quantize_frozen(quantizer, latents);
}

torch::Tensor Objective::compare(const torch::Tensor& images, const torch::Tensor& reconstructions,
                                 Scalars& scalars) const {
  auto sum = at::zeros({}, images.options());
  for (const auto& term : losses_) {
    const AutocastGuard autocast(model_->precision, device_);
    const auto value = (*term.loss)(reconstructions, images);
    scalars[term.name] = value.detach();
    sum = sum + term.weight * value;
  }
  return sum;
}

/// L = L_rec + lambda_perc L_perc + lambda_vq L_vq + lambda_adv L_adv; the rows of phase.cpp say
/// which terms each phase has. L_vq is what the quantizer gives.
torch::Tensor Objective::generator(const torch::Tensor& images,
                                   const torch::Tensor& reconstructions, const Quantized& quantized,
                                   const Step& step, const SlicePass& pass, Scalars& scalars) {
  const auto reconstruction = compare(images, reconstructions, scalars);
  scalars["vq"] = quantized.loss.detach();
  auto loss = reconstruction + vq_weight_ * quantized.loss;
  if (step.plan().adversarial) {
    const auto term = adversary_->generator_term(
        reconstructions, {.seed = step.inputs().noise_seed, .part = part_of(pass)});
    const auto last_layer = model_->decoder->named_parameters()["conv_out.weight"];
    const auto weight = adversary_->weight(step.inputs().share, reconstruction, term, last_layer,
                                           step.loss_scale());
    scalars["generator"] = term.detach();
    scalars["adversarial_weight"] = weight;
    loss = loss + weight * term;
  }
  scalars["loss"] = loss.detach();
  return loss;
}

torch::Tensor Objective::discriminator(const torch::Tensor& images,
                                       const torch::Tensor& reconstructions, const Step& step,
                                       const SlicePass& pass, Scalars& scalars) {
  const PassDraws draws{.seed = step.inputs().noise_seed, .part = part_of(pass)};
  const PenaltyPass penalty{.due = step.plan().extra_terms, .scale = step.loss_scale().factor()};
  const auto loss = adversary_->objective(images, reconstructions, scalars, draws, penalty);
  return step.inputs().share * loss;
}

}  // namespace nsvq
