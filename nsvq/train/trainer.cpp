// The training strategy of the paper's section 4. What is around it is in trainer_steps.cpp,
// trainer_upkeep.cpp and trainer_state.cpp.

#include "nsvq/train/trainer.h"

#include <cmath>

#include "nsvq/core/device.h"
#include "nsvq/core/interrupt.h"
#include "nsvq/core/log.h"
#include "nsvq/core/random.h"
#include "nsvq/ops/code_usage.h"
#include "nsvq/quantizers/codebook.h"
#include "nsvq/train/setup.h"

namespace nsvq {

Outcome Trainer::train() {
  const OwnStream stream(device_);
  report_start();
  if (at_.step == 0) {
    initialise_codebook();
    enter_phase(0, "the run begins");
    measure_drift();
  }
  Progress progress("training", total_steps(), "steps", 30, at_.step);
  while (!at_.finished) {
    if (!train_epoch(progress)) {
      save_checkpoint();
      require_saved();
      return {at_.evaluation, false};
    }
    finish_epoch();
  }
  progress.finish();
  require_saved();
  return {at_.evaluation, true};
}

/// A phase changes what trains and on which terms, and nothing else: weights, moments, learning
/// rates and the discriminator go on as they are.
void Trainer::enter_phase(int64_t position, const std::string& reason) {
  at_.phase = position;
  at_.phase_start = at_.epoch;
  at_.phase_start_step = at_.step;
  phase_ = phase_by_name(config_.schedule.phases[position]);
  freeze(*model_->encoder, !phase_.train_encoder);
  log("phase {} from epoch {}: {}", phase_.name, at_.epoch + 1, reason);
  write([&] { run_->record_phase(at_, phase_.name, reason); });
}

/// False if the process was asked to stop before the end of the epoch.
bool Trainer::train_epoch(Progress& progress) {
  train_loader_.start(at_.epoch, at_.batch);
  Pace pace(device_);
  while (at_.step < total_steps()) {
    const auto batch = train_loader_.next();
    if (!batch) break;
    train_step(batch->images);
    ++at_.step;
    ++at_.batch;
    if (search_waits()) settle();  // where nothing is gained by doing so later
    pace.step();
    for (const auto& hook : step_hooks_) hook(at_);
    progress.update(at_.step, note_);
    if (interrupted()) return false;
  }
  return true;
}

/// On a GPU the step is recorded and given to it as a whole, anew for each kind of step.
void Trainer::train_step(const torch::Tensor& images) {
  const double share = adversarial_share();
  share_.fill_(share);
  const uint64_t seed = seed_for(config_, Draw::quantizer, at_.step);
  seed_.fill_(static_cast<int64_t>(seed));
  own_seed_.fill_(
      static_cast<int64_t>(combine_seeds({seed, static_cast<uint64_t>(group_->rank())})));
  number_.fill_(at_.step);
  const bool adversarial = share > 0;
  const auto kind = fmt::format("{} {}", phase_.name, adversarial);
  if (kind != step_kind_) settle();
  step_kind_ = kind;
  recorder_.run(kind, images,
                [&](const torch::Tensor& recorded) { step_as_it_is(recorded, adversarial); });
  epoch_meter_.add_images(images.size(0));
  step_meter_.add_images(images.size(0));
  ++unsettled_;
}

/// One step of the generator (encoder, quantizer, decoder) on the phase's objective and, where the
/// phase is adversarial, one of the discriminator on the same images. Both sides' gradients are
/// computed before either moves, and neither moves unless all of them are finite.
void Trainer::step_as_it_is(const torch::Tensor& images, bool adversarial) {
  guard_.keep(state_without_optimizer());
  const auto latents = model_->to_latents(images);
  if (search_waits() && !at::isfinite(latents).all().item<bool>()) {  // no code is nearest
    guard_.judge(gather({{"latents", latents.mean()}}), images);
    return;
  }
  const auto quantized = model_->quantizer->quantize(latents, quantizer_step());
  const auto reconstructions = model_->to_images(quantized.latents);

  auto scalars = quantized.terms;
  optimizer_.clear_gradients();
  loss_scale_.backward(objective(images, reconstructions, quantized, adversarial, scalars),
                       *model_);
  scalars["gradient_norm_encoder"] = gradient_norm(*model_->encoder, device_);
  scalars["gradient_norm_quantizer"] = gradient_norm(*model_->quantizer, device_);
  scalars["gradient_norm_decoder"] = gradient_norm(*model_->decoder, device_);
  if (adversarial) {
    scalars.merge(adversary_->backward(images, reconstructions, share_, loss_scale_));
  }
  const auto gathered = gather(scalars);
  const auto bad = guard_.judge(gathered, images, loss_scale_.can_shrink());

  optimizer_.step(bad);
  if (adversarial) adversary_->step(bad);
  follow_step(latents.detach(), quantized.indices, bad);
  guard_.restore();
  ema_.copy_buffers();
  loss_scale_.update(bad);
  usage_ += code_usage(quantized.indices, usage_.size(0)).masked_fill(bad, 0);
  epoch_meter_.add(gathered, bad);
  step_meter_.add(gathered, bad);
}

/// The terms of the phase, and random numbers of this step and rank alone.
QuantizerStep Trainer::quantizer_step() const {
  return {.commitment = phase_.commitment,
          .extra_codebook_terms = phase_.ns_loss,
          .step = number_,
          .seed = own_seed_};
}

/// L = L_rec + lambda_perc L_perc + lambda_adv L_adv + lambda_vq L_vq, where
///   stage 1          L_vq = |sg z - c|^2 + beta |z - sg c|^2 + alpha L_NS
///   warm-up          L_vq = |sg z - c|^2, without L_adv
///   stage 2          L_vq = |sg z - c|^2, L_adv ramped up
torch::Tensor Trainer::objective(const torch::Tensor& images, const torch::Tensor& reconstructions,
                                 const Quantized& quantized, bool adversarial, Scalars& scalars) {
  auto reconstruction = at::zeros({}, images.options());
  for (const auto& term : losses_) {
    const Casting casting(model_->precision, device_);
    const auto value = (*term.loss)(reconstructions, images);
    scalars[term.name] = value.detach();
    reconstruction = reconstruction + term.weight * value;
  }
  scalars["vq"] = quantized.loss.detach();
  auto loss = reconstruction + config_.loss.vq * quantized.loss;
  if (adversarial) {
    const auto term = adversary_->generator_term(reconstructions);
    const auto last_layer = model_->decoder->named_parameters()["conv_out.weight"];
    const auto weight = adversary_->weight(share_, reconstruction, term, last_layer, loss_scale_);
    scalars["generator"] = term.detach();
    scalars["adversarial_weight"] = weight;
    loss = loss + weight * term;
  }
  scalars["loss"] = loss.detach();
  return loss;
}

/// Between 0 (no adversarial training now) and 1.
double Trainer::adversarial_share() const {
  if (!adversary_ || at_.step < config_.adversarial.start_step) return 0;
  const double ramp_steps =
      config_.schedule.ramp_epochs * static_cast<double>(train_loader_.batches_per_epoch());
  return adversarial_factor(phase_, at_.step - at_.phase_start_step, ramp_steps);
}

void Trainer::finish_epoch() {
  settle();
  const bool whole = at_.batch == train_loader_.batches_per_epoch();
  at_.batch = 0;
  ++at_.epoch;
  at_.finished = at_.step >= total_steps();
  group_->sum({usage_});
  const auto means = epoch_meter_.means(*group_);
  at_.commitment.push_back(means.contains("commitment") ? means.at("commitment") : NAN);
  if (replacement_ && phase_.replacement && whole) {
    note_replaced(replacement_->after_epoch(model_->quantizer->codebook(), usage_, at_.epoch,
                                            seed_for(config_, Draw::replacement, at_.epoch)));
  }
  for (const auto& hook : epoch_hooks_) hook(at_);
  if (const auto reason = reason_to_leave_phase()) enter_phase(at_.phase + 1, *reason);
  usage_.zero_();
  replaced_.zero_();
  epoch_meter_.reset();
  if (config_.checkpoint.every_steps == 0 || at_.finished) save_checkpoint();
}

/// What no gradient moves: statistics of the quantizer, and in stage 1 codes that (almost) nothing
/// chose, where the policy acts after steps.
void Trainer::follow_step(const torch::Tensor& latents, const torch::Tensor& indices,
                          const torch::Tensor& bad) {
  const torch::NoGradGuard no_grad;
  auto& quantizer = *model_->quantizer;
  const StepOutputs step{flatten_latents(latents), indices.flatten(), seed_, *group_};
  quantizer.update_statistics(step);
  if (replacement_ && phase_.replacement) {
    const auto rows = replacement_->after_step(quantizer.codebook(), step);
    if (rows.defined()) note_replaced(rows.logical_and(bad.logical_not()));
  }
}

/// An overwritten code has no past: no moments, no statistics, no average.
void Trainer::note_replaced(const torch::Tensor& rows) {
  if (!rows.defined()) return;
  auto& quantizer = *model_->quantizer;
  if (config_.replacement.reset_moments) optimizer_.reset_rows(quantizer.codebook(), rows);
  quantizer.rows_replaced(rows);
  ema_.copy_codes(rows);
  replaced_ += rows.sum();
}

/// Stage 1 ends when the encoder is to be frozen, the warm-up after its epochs; the last phase of
/// the schedule lasts as long as the budget.
std::optional<std::string> Trainer::reason_to_leave_phase() const {
  const auto& schedule = config_.schedule;
  const bool last = at_.phase + 1 == static_cast<int64_t>(schedule.phases.size());
  if (last || at_.finished) return std::nullopt;
  const int64_t epochs = at_.epoch - at_.phase_start;
  switch (phase_.end) {
    case PhaseEnd::freeze:
      if (const auto reason = freeze_reason(schedule, at_.commitment)) {
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

}  // namespace nsvq
