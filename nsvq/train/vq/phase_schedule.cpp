#include "nsvq/train/vq/phase_schedule.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "nsvq/io/formats/json.h"
#include "nsvq/train/vq/state_json.h"

namespace nsvq {

PhaseSchedule::PhaseSchedule(ScheduleConfig schedule, AdversarialConfig adversarial,
                             int64_t batches_per_epoch)
    : schedule_(std::move(schedule)),
      adversarial_(std::move(adversarial)),
      steps_per_epoch_(schedule_.epoch_steps > 0 ? schedule_.epoch_steps : batches_per_epoch),
      phase_(phase_by_name(schedule_.phases.front())) {}

std::optional<Transition> PhaseSchedule::end_epoch(double commitment, bool more_to_come) {
  commitment_.push_back(commitment);
  return more_to_come ? due() : std::nullopt;
}

std::optional<Transition> PhaseSchedule::resume(const RunState& state) const {
  const bool between_epochs = schedule_.epoch_steps > 0 ? state.step % steps_per_epoch_ == 0
                                                        : state.batch == 0 && state.used == 0;
  return between_epochs ? due() : std::nullopt;
}

Phase PhaseSchedule::next() const {
  const auto transition = due();
  return transition ? phase_by_name(schedule_.phases.at(transition->phase)) : phase_;
}

void PhaseSchedule::enter(const Transition& transition, int64_t step) {
  number_ = transition.phase;
  phase_ = phase_by_name(schedule_.phases.at(number_));
  start_ = std::ssize(commitment_);
  start_step_ = step;
}

std::optional<Transition> PhaseSchedule::due() const {
  if (number_ + 1 == std::ssize(schedule_.phases)) return std::nullopt;
  const auto reason = reason_to_leave();
  return reason ? std::optional(Transition{number_ + 1, *reason}) : std::nullopt;
}

/// Stage 1 ends when the encoder is to be frozen, the warm-up after its epochs; the last phase of
/// the schedule lasts as long as the budget. Each has one epoch at least.
std::optional<std::string> PhaseSchedule::reason_to_leave() const {
  const int64_t epochs = std::ssize(commitment_) - start_;
  if (epochs == 0) return std::nullopt;
  switch (phase_.end) {
    case PhaseEnd::freeze:
      if (const auto reason = freeze_reason(schedule_, commitment_)) {
        return "encoder frozen: " + *reason;
      }
      return std::nullopt;
    case PhaseEnd::warmup:
      if (epochs < schedule_.warmup_epochs) return std::nullopt;
      return fmt::format("the warm-up has had its epochs ({})", epochs);
    case PhaseEnd::budget:
      if (epochs < schedule_.stage2_epochs) return std::nullopt;
      return fmt::format("stage 2 has had its epochs ({})", epochs);
    case PhaseEnd::never:
      return std::nullopt;
  }
  return std::nullopt;
}

std::optional<double> PhaseSchedule::unlogged_commitment() const {
  const bool in_epoch_lines =
      schedule_.commitment == "train" && schedule_.smoothing == 0 && schedule_.epoch_steps == 0;
  if (schedule_.freeze != "plateau" || !phase_.train_encoder || in_epoch_lines) return std::nullopt;
  return watched_commitment(schedule_, commitment_).back();
}

double PhaseSchedule::adversarial_share(int64_t step) const {
  if (adversarial_.weight <= 0 || step < adversarial_.start_step) return 0;
  const double ramp_steps = schedule_.ramp_epochs * static_cast<double>(steps_per_epoch_);
  return adversarial_factor(phase_, step - start_step_, ramp_steps);
}

bool PhaseSchedule::freezes_before(int64_t step, bool trained_elsewhere) const {
  if (phase_.train_encoder || step != start_step_) return false;
  if (number_ == 0) return trained_elsewhere && !trains_encoder(schedule_);
  return phase_by_name(schedule_.phases.at(number_ - 1)).train_encoder;
}

std::string PhaseSchedule::step_kind(int64_t step) const {
  return fmt::format("{} {}", phase_.name, adversarial_share(step) > 0);
}

nlohmann::json PhaseSchedule::to_json() const {
  return {{"phase", number_},
          {"phase_start", start_},
          {"phase_start_step", start_step_},
          {"commitment", commitment_}};
}

void PhaseSchedule::from_json(const nlohmann::json& all) {
  number_ = task_count(all, "phase", std::ssize(schedule_.phases) - 1);
  start_ = task_count(all, "phase_start");
  start_step_ = task_count(all, "phase_start_step");
  commitment_.clear();
  for (const auto& value : all.at("commitment")) commitment_.push_back(number_or_nan(value));
  phase_ = phase_by_name(schedule_.phases.at(number_));
}

}  // namespace nsvq
