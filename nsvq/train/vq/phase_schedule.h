#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "nsvq/losses/adversarial.h"
#include "nsvq/recipe/schedule.h"
#include "nsvq/runs/checkpoint.h"
#include "nsvq/train/vq/phase.h"

namespace nsvq {

/// A phase that begins.
struct Transition {
  int64_t phase = 0;   ///< number in schedule.phases
  std::string reason;  ///< for the log
};

/// When the encoder freezes, and what follows (the paper's section 4): which of schedule.phases a
/// run is in, by the commitment loss of each epoch of the schedule. Knows neither tensors nor logs.
class PhaseSchedule {
 public:
  /// An epoch of the schedule has schedule.epoch_steps steps or, if that is 0, `batches_per_epoch`.
  PhaseSchedule(ScheduleConfig schedule, AdversarialConfig adversarial, int64_t batches_per_epoch);

  const Phase& phase() const { return phase_; }
  /// The phase that a next step would have. It differs from `phase` only where the budget has
  /// ended: a phase that is due there begins with the next step, which this run does not have.
  Phase next() const;

  /// At the end of an epoch of the schedule, with its mean commitment loss: the transition to enter
  /// now. Nullopt also where the budget ends (`more_to_come` is false).
  std::optional<Transition> end_epoch(double commitment, bool more_to_come);
  /// For a run that goes on from `state`: a transition that was due where its budget ended.
  std::optional<Transition> resume(const RunState& state) const;
  /// `step`: steps done. The schedule is in the new phase from here on.
  void enter(const Transition& transition, int64_t step);

  /// The last value by which the plateau is found, where that is not the `commitment` of the
  /// epoch's own line.
  std::optional<double> unlogged_commitment() const;
  int64_t steps_per_epoch() const { return steps_per_epoch_; }
  /// Weight of adversarial terms in step number `step`: 0 (none), a ramp, 1.
  double adversarial_share(int64_t step) const;
  /// Whether step number `step` is the first with a frozen encoder that trained before: in this
  /// run or, where no phase of it trains the encoder, elsewhere (train.init_from).
  bool freezes_before(int64_t step, bool trained_elsewhere = false) const;
  /// Steps of one kind run the same kernels.
  std::string step_kind(int64_t step) const;

  /// For checkpoints: keys phase, phase_start, phase_start_step and commitment.
  nlohmann::json to_json() const;
  /// Throws UserError or json::exception for what no schedule has written.
  void from_json(const nlohmann::json& all);

 private:
  std::optional<Transition> due() const;
  std::optional<std::string> reason_to_leave() const;

  ScheduleConfig schedule_;
  AdversarialConfig adversarial_;
  int64_t steps_per_epoch_;
  Phase phase_;
  int64_t number_ = 0;              ///< of the phase, in schedule.phases
  int64_t start_ = 0;               ///< epochs of the schedule before the phase
  int64_t start_step_ = 0;          ///< steps done when the phase began
  std::vector<double> commitment_;  ///< of each epoch of the schedule
};

}  // namespace nsvq
