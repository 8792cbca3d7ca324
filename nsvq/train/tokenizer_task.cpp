// The training strategy of the paper's section 4.

#include "nsvq/train/tokenizer_task.h"

#include <cmath>

#include "nsvq/core/log.h"
#include "nsvq/core/seeds.h"
#include "nsvq/ops/code_statistics/code_usage.h"
#include "nsvq/quantizers/codebook.h"
#include "nsvq/train/loop.h"

namespace nsvq {

/// One step of the generator (encoder E, codes c, decoder G) on the phase's objective and, where
/// the phase is adversarial, one of the discriminator on the same images. Both sides' gradients are
/// computed before either moves.
void TokenizerTask::step(const TensorBatch& batch, Step& step) {
  const auto& images = batch.front();
  const bool adversarial = step.plan().share > 0;

  const auto latents = model_->to_latents(images);  // z = E(x)
  if (step_syncs_host() && !at::isfinite(latents).all().item<bool>()) {
    return step.abandon({{"latents", latents.mean()}});  // NaN has no nearest code
  }
  const auto quantized =  // q = argmin_k |z - c_k|, and L_vq
      model_->quantizer->quantize(latents, quantizer_terms(step.inputs()));
  const auto reconstructions = model_->to_images(quantized.latents);  // G(c_q)

  auto scalars = quantized.terms;
  step.backward(objective(images, reconstructions, quantized, step, scalars), *model_);
  if (adversarial) {
    scalars.merge(
        adversary_->backward(images, reconstructions, step.inputs().share, step.loss_scale()));
  }
  const auto& skip = step.update(scalars, trained_parts(adversarial));

  update_statistics(latents.detach(), quantized.indices, step.inputs(), skip);
  step.rollback();  // before buffers are copied
  average_.copy_buffers();
  usage_ += code_usage(quantized.indices, usage_.size(0)).masked_fill(skip, 0);
}

/// L = L_rec + lambda_perc L_perc + lambda_adv L_adv + lambda_vq L_vq, where
///   stage 1          L_vq = |sg z - c|^2 + beta |z - sg c|^2 + alpha L_NS, L_adv at full weight
///   warm-up          L_vq = |sg z - c|^2, without L_adv
///   stage 2          L_vq = |sg z - c|^2, L_adv ramped up
torch::Tensor TokenizerTask::objective(const torch::Tensor& images,
                                       const torch::Tensor& reconstructions,
                                       const Quantized& quantized, const Step& step,
                                       Scalars& scalars) {
  auto reconstruction = at::zeros({}, images.options());
  for (const auto& term : losses_) {
    const AutocastGuard autocast(model_->precision, device_);
    const auto value = (*term.loss)(reconstructions, images);
    scalars[term.name] = value.detach();
    reconstruction = reconstruction + term.weight * value;
  }
  scalars["vq"] = quantized.loss.detach();
  auto loss = reconstruction + config_.loss.vq * quantized.loss;
  if (step.plan().share > 0) {
    const auto term = adversary_->generator_term(reconstructions);
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

/// The quantizer's terms of the phase, and random numbers of this step and rank alone.
QuantizerStep TokenizerTask::quantizer_terms(const StepInputs& inputs) const {
  return {.commitment = phase_.commitment,
          .extra_codebook_terms = phase_.ns_loss,
          .step = inputs.step,
          .seed = inputs.rank_seed};
}

/// What no gradient moves: statistics of the quantizer, and in stage 1 codes that (almost) nothing
/// chose, where the policy acts after steps.
void TokenizerTask::update_statistics(const torch::Tensor& latents, const torch::Tensor& indices,
                                      const StepInputs& inputs, const torch::Tensor& skip) {
  const torch::NoGradGuard no_grad;
  auto& quantizer = *model_->quantizer;
  const StepOutputs outputs{flatten_latents(latents), indices.flatten(), inputs.seed, *group_};
  quantizer.update_statistics(outputs);
  if (replacement_ && phase_.replacement) {
    const auto rows = replacement_->after_step(quantizer.codebook(), outputs);
    if (rows.defined()) forget_replaced(rows.logical_and(skip.logical_not()));
  }
}

/// An overwritten code has no past: no moments, no statistics, no average.
void TokenizerTask::forget_replaced(const torch::Tensor& rows) {
  if (!rows.defined()) return;
  auto& quantizer = *model_->quantizer;
  if (config_.replacement.reset_moments) optimizer_.reset_rows(quantizer.codebook(), rows);
  quantizer.rows_replaced(rows);
  average_.copy_rows(quantizer.codebook(), rows);
  replaced_ += rows.sum();
}

/// At the end of an epoch of stage 1 codes that nothing chose are replaced.
void TokenizerTask::end_epoch(Loop& loop, bool whole) {
  const int64_t epoch = loop.state().epoch;
  group_->sum({usage_});
  const auto means = loop.epoch_means();
  state_.commitment.push_back(means.contains("commitment") ? means.at("commitment") : NAN);
  if (replacement_ && phase_.replacement && whole) {
    forget_replaced(replacement_->after_epoch(model_->quantizer->codebook(), usage_, epoch,
                                              seed_for(config_.seed, Draw::replacement, epoch)));
  }
  if (config_.drift.every_steps == 0) measure_drift(loop);
  log_epoch(loop);
  raise_alarms(loop);
}

void TokenizerTask::start_next_epoch(Loop& loop) {
  if (const auto reason = reason_to_leave_phase(loop.state())) {
    enter_phase(loop, state_.phase + 1, *reason);
  }
  usage_.zero_();
  replaced_.zero_();
}

/// Stage 1 ends when the encoder is to be frozen, the warm-up after its epochs; the last phase of
/// the schedule lasts as long as the budget.
std::optional<std::string> TokenizerTask::reason_to_leave_phase(const RunState& state) const {
  const auto& schedule = config_.schedule;
  const bool last = state_.phase + 1 == std::ssize(schedule.phases);
  if (last || state.finished) return std::nullopt;
  const int64_t epochs = state.epoch - state_.phase_start;
  switch (phase_.end) {
    case PhaseEnd::freeze:
      if (const auto reason = freeze_reason(schedule, state_.commitment)) {
        return "encoder frozen: " + *reason;
      }
      return std::nullopt;
    case PhaseEnd::warmup:
      if (epochs < schedule.warmup_epochs) return std::nullopt;
      return fmt::format("the warm-up has had its epochs ({})", epochs);
    case PhaseEnd::budget:
      if (epochs < schedule.stage2_epochs) return std::nullopt;
      return fmt::format("stage 2 has had its epochs ({})", epochs);
  }
  return std::nullopt;
}

/// A phase changes what trains and on which terms, and nothing else: weights, moments, learning
/// rates and the discriminator stay.
void TokenizerTask::enter_phase(Loop& loop, int64_t position, const std::string& reason) {
  const auto& state = loop.state();
  state_.phase_start = state.epoch;
  state_.phase_start_step = state.step;
  set_phase(position);
  log("phase {} from epoch {}: {}", phase_.name, state.epoch + 1, reason);
  loop.record_phase(reason);
}

void TokenizerTask::set_phase(int64_t position) {
  state_.phase = position;
  phase_ = phase_by_name(config_.schedule.phases.at(position));
  for (auto& parameter : model_->encoder->parameters()) {
    parameter.set_requires_grad(phase_.train_encoder);
  }
}

/// A step differs from another in its phase and in whether it is adversarial.
StepPlan TokenizerTask::plan(const RunState& state) {
  const double share = adversarial_share(state);
  return {fmt::format("{} {}", phase_.name, share > 0), share};
}

/// Between 0 (no adversarial training now) and 1.
double TokenizerTask::adversarial_share(const RunState& state) const {
  if (!adversary_ || state.step < config_.adversarial.start_step) return 0;
  const double ramp_steps =
      config_.schedule.ramp_epochs * static_cast<double>(batches_.batches_per_epoch());
  return adversarial_factor(phase_, state.step - state_.phase_start_step, ramp_steps);
}

}  // namespace nsvq
