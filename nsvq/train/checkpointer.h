#pragma once

#include "nsvq/train/steps/step_runner.h"
#include "nsvq/train/training_run.h"

namespace nsvq {

/// Writes the checkpoints of a run, and keeps the best one beside the last.
class Checkpointer {
 public:
  /// Both outlive the checkpointer.
  Checkpointer(TrainingRun& run, StepRunner& steps) : run_(run), steps_(steps) {}

  /// To be called after loading: the present position counts as saved.
  void loaded();
  /// Writes a checkpoint of what is finite, after skipped steps were reported (finite_check.h).
  void save();
  /// Whether the newest checkpoint is of the present position.
  bool is_saved() const { return saved_ == position(); }
  /// Throws RunError if it is not: the end of a run must not be lost in silence, whatever
  /// checkpoint.on_error allowed on the way.
  void require_saved() const;

  /// The epoch's line was logged: a checkpoint that is written while its evaluation is still
  /// pending keeps the logs up to here, and the evaluation logs the rest anew.
  void epoch_logged();
  /// Compares the run's evaluation with the best one so far (checkpoint.keep_best). The first of
  /// equal ones is the best.
  void compare_with_best();
  /// The step whose checkpoint is kept for its evaluation, or -1.
  int64_t best_step() const;
  /// Names the best checkpoint in the run's folder: a process that was killed may not have.
  void mark_best();

 private:
  /// What tells checkpoints of one step apart.
  struct Position {
    int64_t step = 0, epoch = 0;
    bool evaluation_pending = false;
    bool operator==(const Position&) const = default;
  };
  Position position() const {
    return {run_.state.step, run_.state.epoch, run_.state.evaluation_pending};
  }
  void set_saved();

  TrainingRun& run_;
  StepRunner& steps_;
  Position saved_;                 ///< of the newest checkpoint
  LogPosition before_evaluation_;  ///< of the newest epoch, on rank 0
};

}  // namespace nsvq
