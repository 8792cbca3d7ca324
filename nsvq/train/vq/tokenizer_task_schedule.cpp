// The phases of the paper's section 4: when the encoder freezes, and what a phase trains.

#include <cmath>

#include "nsvq/core/log.h"
#include "nsvq/train/loop.h"
#include "nsvq/train/lr_schedule.h"
#include "nsvq/train/vq/tokenizer_task.h"

namespace nsvq {

void TokenizerTask::start_next_epoch(Loop& loop) {
  if (config_.schedule.epoch_steps == 0) advance_schedule(loop, epoch_commitment(loop));
  usage_.zero_();
  replaced_.zero_();
}

/// At the end of an epoch of the schedule.
void TokenizerTask::advance_schedule(Loop& loop, double commitment) {
  const bool validation = config_.schedule.commitment == "validation";
  state_.commitment.push_back(validation ? drift_->commitment(model_) : commitment);
  record_plateau(loop);
  if (loop.state().step < loop.total_steps()) enter_due_phase(loop);
}

/// What the plateau is looked for in, where that is not the `commitment` of the epoch's own line.
void TokenizerTask::record_plateau(Loop& loop) const {
  const auto& schedule = config_.schedule;
  const bool in_epoch_lines =
      schedule.commitment == "train" && schedule.smoothing == 0 && schedule.epoch_steps == 0;
  if (schedule.freeze != "plateau" || !phase_.train_encoder || in_epoch_lines) return;
  loop.record("plateau", {{"commitment", watched_commitment(schedule, state_.commitment).back()}});
}

/// A phase that was due where the budget ended begins when the run is extended.
void TokenizerTask::go_on(Loop& loop) {
  const auto& state = loop.state();
  const int64_t epoch_steps = config_.schedule.epoch_steps;
  const bool between_epochs =
      epoch_steps > 0 ? state.step % epoch_steps == 0 : state.batch == 0 && state.used == 0;
  if (between_epochs) enter_due_phase(loop);
}

void TokenizerTask::enter_due_phase(Loop& loop) {
  if (const auto reason = reason_to_leave_phase()) enter_phase(loop, state_.phase + 1, *reason);
}

/// Other than the present one only at the end of the budget, where a phase may be due that a longer
/// run has entered: what it leaves alone must be left alone here.
Phase TokenizerTask::phase_of_next_step() const {
  if (!reason_to_leave_phase()) return phase_;
  return phase_by_name(config_.schedule.phases.at(state_.phase + 1));
}

/// Stage 1 ends when the encoder is to be frozen, the warm-up after its epochs; the last phase of
/// the schedule lasts as long as the budget. Each has one epoch at least.
std::optional<std::string> TokenizerTask::reason_to_leave_phase() const {
  const auto& schedule = config_.schedule;
  if (state_.phase + 1 == std::ssize(schedule.phases)) return std::nullopt;
  const int64_t epochs = std::ssize(state_.commitment) - state_.phase_start;
  if (epochs == 0) return std::nullopt;
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
  state_.phase_start = std::ssize(state_.commitment);
  state_.phase_start_step = state.step;
  set_phase(position);
  const bool by_steps = config_.schedule.epoch_steps > 0;
  log("phase {} from {} {}: {}", phase_.name, by_steps ? "step" : "epoch",
      (by_steps ? state.step : state.epoch) + 1, reason);
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
  const int64_t steps = total_steps(config_.train, batches_, state);
  StepPlan plan{fmt::format("{} {}", phase_.name, share > 0), share};
  plan.lr_factors = {lr_factor(config_.optimizer.schedule, state.step, steps)};
  if (adversary_) plan.lr_factors.push_back(discriminator_lr_factor(config_, state.step, steps));
  return plan;
}

/// Between 0 (no adversarial training now) and 1.
double TokenizerTask::adversarial_share(const RunState& state) const {
  if (!adversary_ || state.step < config_.adversarial.start_step) return 0;
  const double ramp_steps =
      config_.schedule.ramp_epochs * static_cast<double>(schedule_epoch_steps());
  return adversarial_factor(phase_, state.step - state_.phase_start_step, ramp_steps);
}

double TokenizerTask::epoch_commitment(Loop& loop) {
  const auto means = loop.epoch_means();
  return means.contains("commitment") ? means.at("commitment") : NAN;
}

double TokenizerTask::window_commitment() {
  const auto sums = over_ranks(window_commitment_);
  const auto mean = (sums[0] / sums[1]).item<double>();  // 0 / 0 is NaN
  window_commitment_.zero_();
  return mean;
}

int64_t TokenizerTask::schedule_epoch_steps() const {
  const int64_t steps = config_.schedule.epoch_steps;
  return steps > 0 ? steps : batches_.batches_per_epoch();
}

}  // namespace nsvq
