// The training strategy of the paper's section 4: steps and replacement. Its phases are in
// tokenizer_task_schedule.cpp.

#include "nsvq/train/vq/tokenizer_task.h"

#include <cmath>
#include <utility>

#include "nsvq/core/log.h"
#include "nsvq/core/random.h"
#include "nsvq/ops/code_statistics/code_usage.h"
#include "nsvq/quantizers/codebook.h"
#include "nsvq/train/diagnosis.h"
#include "nsvq/train/loop.h"
#include "nsvq/train/lr_schedule.h"

namespace nsvq {

/// What the passes of a step leave for its end.
struct TokenizerTask::Passed {
  Scalars scalars;  ///< means over the passes
  std::vector<torch::Tensor> latents, indices;
};

namespace {

torch::Tensor join(const std::vector<torch::Tensor>& parts) {
  return parts.size() == 1 ? parts.front() : at::cat(parts);
}

}  // namespace

/// One step of the generator (encoder E, codes c, decoder G) on the phase's objective and, where
/// the phase is adversarial, one of the discriminator on the same images. Both sides' gradients are
/// computed before either moves.
void TokenizerTask::step(const TensorBatch& batch, Step& step) {
  const auto parts = batch.front().chunk(config_.train.accumulate);
  Passed passed;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!pass(parts[i], {static_cast<int64_t>(i), std::ssize(parts)}, step, passed)) return;
  }
  const auto& skip = step.update(passed.scalars, trained_parts(step.plan().share > 0));

  const auto indices = join(passed.indices);
  update_statistics(join(passed.latents), indices, step.inputs(), skip);
  step.rollback();  // before buffers are copied
  average_.copy_buffers();
  const auto usage = code_usage(indices, usage_.size(0)).masked_fill(skip, 0);
  usage_ += usage;
  if (config_.replacement.every_steps > 0) window_usage_ += usage;
  if (config_.schedule.epoch_steps > 0) {
    const auto commitment = passed.scalars.at("commitment").to(at::kDouble);
    window_commitment_ += at::stack({commitment, at::ones_like(commitment)}).masked_fill(skip, 0);
  }
}

/// Forward and backward pass on a part of the step's images; their gradients add up to the mean.
/// False if the step was given up.
bool TokenizerTask::pass(const torch::Tensor& images, const Part& part, Step& step,
                         Passed& passed) {
  const auto latents = model_->to_latents(images);  // z = E(x)
  if (step_syncs_host()) {  // the search refuses NaN, which has no nearest code
    const bool codes = first_nonfinite(named_tensors(*model_->quantizer)).empty();
    if (step.any_rank(!codes || !at::isfinite(latents).all().item<bool>())) {
      step.abandon({{"latents", latents.mean()}, {"codes", latents.new_full({}, codes ? 1 : NAN)}});
      return false;
    }
  }
  const auto quantized =  // q = argmin_k |z - c_k|, and L_vq
      model_->quantizer->quantize(latents, quantizer_terms(step.inputs(), part));
  const auto reconstructions = model_->to_images(quantized.latents);  // G(c_q)

  auto scalars = quantized.terms;
  if (!is_constant(config_.optimizer.schedule)) scalars["lr"] = optimizer_.lr();
  const auto mean = [&](const torch::Tensor& value) {
    return part.count == 1 ? value : value / static_cast<double>(part.count);
  };
  step.backward(mean(objective(images, reconstructions, quantized, step, scalars)), *model_,
                part.last());
  if (step.plan().share > 0) {
    const auto loss = adversary_->objective(images, reconstructions, scalars);
    const auto& schedule = config_.optimizer.discriminator_schedule;
    if (schedule.shape != "same" && !is_constant(schedule)) {
      scalars["lr_discriminator"] = adversary_->optimizer().lr();
    }
    step.backward(mean(step.inputs().share * loss), adversary_->module(), part.last());
  }
  for (const auto& [name, value] : scalars) {
    auto& sum = passed.scalars[name];
    sum = sum.defined() ? sum + mean(value) : mean(value);
  }
  passed.latents.push_back(latents.detach());
  passed.indices.push_back(quantized.indices);
  return true;
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

/// The quantizer's terms of the phase, and random numbers of this step.
QuantizerStep TokenizerTask::quantizer_terms(const StepInputs& inputs, const Part& part) const {
  return {.commitment = phase_.commitment,
          .extra_codebook_terms = phase_.ns_loss,
          .step = inputs.step,
          .seed = inputs.noise_seed,
          .part = group_->rank() * part.count + part.number,
          .entropy_group = config_.dist.entropy == "all" ? group_.get() : nullptr};
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

/// Codes that nothing chose in a window of stage 1 are replaced.
void TokenizerTask::replace_unused(Loop& loop, const torch::Tensor& usage) {
  if (!replacement_ || !phase_of_next_step().replacement) return;
  const auto& [step, epoch] = std::pair(loop.state().step, loop.state().epoch);
  const int64_t window = config_.replacement.every_steps > 0 ? step : epoch;
  forget_replaced(replacement_->after_window(model_->quantizer->codebook(), usage, {step, epoch},
                                             seed_for(config_.seed, Draw::replacement, window)));
}

/// Windows that are counted in steps end within epochs.
void TokenizerTask::after_step(Loop& loop, const TensorBatch& batch) {
  const auto due = [&](int64_t every) { return every > 0 && loop.state().step % every == 0; };
  if (due(config_.replacement.every_steps)) {
    loop.check_skipped_steps();
    replace_unused(loop, over_ranks(window_usage_));
    window_usage_.zero_();
  }
  if (due(config_.drift.every_steps)) measure_drift(loop);
  if (due(config_.train.check)) check_operators(loop, batch.front());
  if (due(config_.schedule.epoch_steps)) {
    loop.check_skipped_steps();
    advance_schedule(loop, window_commitment());
  }
}

void TokenizerTask::end_epoch(Loop& loop, bool whole) {
  const auto usage = over_ranks(usage_);
  if (config_.replacement.every_steps == 0 && whole) replace_unused(loop, usage);
  if (config_.drift.every_steps == 0) measure_drift(loop);
  log_epoch(loop, usage);
  raise_alarms(loop);
}

}  // namespace nsvq
