#include "nsvq/train/trainer.h"

#include "nsvq/core/device.h"
#include "nsvq/core/log.h"
#include "nsvq/ops/code_usage.h"
#include "nsvq/quantizers/replacement.h"
#include "nsvq/train/evaluate.h"
#include "nsvq/train/setup.h"

namespace nsvq {

Trainer::Trainer(Config config, const std::filesystem::path& run, std::shared_ptr<Group> group)
    : config_(std::move(config)),
      group_(std::move(group)),
      device_(choose_device(config_.device)),
      train_source_(open_source(config_.data.train)),
      val_source_(open_source(config_.data.val)),
      train_loader_(train_source_, training_options(config_, *group_)),
      val_loader_(val_source_, evaluation_options(config_, *group_)),
      model_(make_model(config_, device_)),
      ema_(config_, model_),
      optimizer_(named_parameters(*model_), config_.optimizer),
      losses_(make_losses(config_.loss)),
      fixed_images_(first_images(val_source_, config_, *group_).to(device_)),
      phase_(phase_by_name(config_.schedule.phases.front())),
      usage_(at::zeros({model_->quantizer->codes()}, at::device(device_).dtype(at::kLong))),
      run_(run, config_) {
  add_own_hooks();
}

std::map<std::string, double> Trainer::train() {
  report_start();
  initialise_codebook();
  enter_phase(0, "the run begins");
  Progress progress("training", config_.train.epochs * train_loader_.batches_per_epoch(), "steps");
  while (!last_epoch()) {
    train_epoch(progress);
    replaced_ = phase_.replacement ? replace_codes() : 0;
    for (const auto& hook : epoch_hooks_) hook(at_);
    if (const auto reason = reason_to_leave_phase()) enter_phase(at_.phase + 1, *reason);
  }
  progress.finish();
  return evaluation_;
}

/// A phase changes what trains and on which terms, and nothing else: weights, moments and learning
/// rates go on as they are.
void Trainer::enter_phase(int64_t position, const std::string& reason) {
  at_.phase = position;
  at_.phase_start = at_.epoch;
  phase_ = phase_by_name(config_.schedule.phases[position]);
  for (auto& parameter : model_->encoder->parameters()) {
    parameter.set_requires_grad(phase_.train_encoder);
  }
  log("phase {} from epoch {}: {}", phase_.name, at_.epoch + 1, reason);
  run_.record_phase(at_, phase_.name, reason);
}

void Trainer::train_epoch(Progress& progress) {
  usage_.zero_();
  epoch_meter_.reset();
  step_meter_.reset();
  train_loader_.start(at_.epoch, at_.batch);
  while (const auto batch = train_loader_.next()) {
    train_step(batch->images.to(device_));
    ++at_.step;
    ++at_.batch;
    for (const auto& hook : step_hooks_) hook(at_);
    progress.update(at_.step, note_);
  }
  at_.batch = 0;
  ++at_.epoch;
  at_.commitment.push_back(epoch_meter_.means(*group_).at("commitment"));
  group_->sum({usage_});
}

/// One step on the phase's objective: reconstruction terms + lambda_vq L_vq, where
///   stage 1          L_vq = |sg z - c|^2 + beta |z - sg c|^2 + alpha L_NS
///   warm-up, stage 2 L_vq = |sg z - c|^2
void Trainer::train_step(const torch::Tensor& images) {
  const auto latents = model_->encoder->forward(images);
  check_finite({{"latents", latents.detach().mean()}});
  const auto quantized = model_->quantizer->quantize(
      latents, {.commitment = phase_.commitment, .neighbours = phase_.ns_loss});
  const auto reconstructions = model_->decoder->forward(quantized.latents);

  auto scalars = quantized.terms;
  scalars["vq"] = quantized.loss.detach();
  auto loss = config_.loss.vq * quantized.loss;
  for (const auto& term : losses_) {
    const auto value = (*term.loss)(reconstructions, images);
    scalars[term.name] = value.detach();
    loss = loss + term.weight * value;
  }
  scalars["loss"] = loss.detach();
  check_finite(scalars);

  optimizer_.clear_gradients();
  loss.backward();
  optimizer_.step();
  ema_.update();

  usage_ += code_usage(quantized.indices, usage_.size(0));
  epoch_meter_.add(scalars, images.size(0));
  step_meter_.add(scalars, images.size(0));
}

/// At the end of an epoch of stage 1, codes that (almost) nothing chose become copies of active
/// ones.
int64_t Trainer::replace_codes() {
  auto codebook = model_->quantizer->codebook();
  const auto& replacement = config_.replacement;
  if (!replacement.enabled || !codebook.defined() || at_.epoch <= replacement.exempt_epochs)
    return 0;
  const auto rows = replace_dead_codes(codebook, usage_, replacement,
                                       seed_for(config_, Draw::replacement, at_.epoch));
  if (replacement.reset_moments) optimizer_.reset_rows(codebook, rows);
  ema_.copy_codes(rows);
  return rows.numel();
}

/// Stage 1 ends when the encoder is to be frozen, the warm-up after its epochs; the last phase of
/// the schedule lasts as long as the budget.
std::optional<std::string> Trainer::reason_to_leave_phase() const {
  const bool last = at_.phase + 1 == static_cast<int64_t>(config_.schedule.phases.size());
  if (last || last_epoch()) return std::nullopt;
  if (phase_.end == PhaseEnd::freeze) {
    const auto reason = freeze_reason(config_.schedule, at_.commitment);
    if (reason) return "encoder frozen: " + *reason;
  }
  if (phase_.end == PhaseEnd::warmup &&
      at_.epoch - at_.phase_start >= config_.schedule.warmup_epochs) {
    return fmt::format("{} epochs of warm-up are over", config_.schedule.warmup_epochs);
  }
  return std::nullopt;
}

}  // namespace nsvq
