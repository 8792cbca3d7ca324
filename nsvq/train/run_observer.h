#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "nsvq/io/images/image.h"
#include "nsvq/runs/checkpoint.h"
#include "nsvq/train/steps/step_runner.h"

namespace nsvq {

class Journal;

/// The line of an epoch in the log and in metrics.jsonl, to which observers add.
struct EpochLine {
  bool whole = true;                          ///< false where the budget ended within the epoch
  std::map<std::string, double> values = {};  ///< beside loss, skipped steps and seconds
  std::string text = {};                      ///< behind the loss, in the log
};

/// What happens around the steps of a run: measurements, alarms, evaluations, pictures. The loop
/// calls a task's observers in the order of Task::observers, on every rank unless noted, after it
/// has reported skipped steps.
class RunObserver {
 public:
  virtual ~RunObserver() = default;

  /// Lines for the start of the log. On rank 0 alone.
  virtual std::vector<std::string> describe(int64_t /*total_steps*/) const { return {}; }
  /// Before the first step of a new run, behind Task::initialise.
  virtual void begin(Journal& /*journal*/) {}
  /// Before the next step of a run that goes on from a checkpoint, also one whose budget was spent
  /// there and has grown since.
  virtual void resume(Journal& /*journal*/) {}

  /// Steps from one `after_step` to the next; 0: none.
  virtual int64_t every_steps() const { return 0; }
  /// Between two steps; `batch` is that of the step before.
  virtual void after_step(Journal& /*journal*/, const TensorBatch& /*batch*/) {}

  /// After the steps of an epoch, before its line is logged.
  virtual void end_epoch(Journal& /*journal*/, EpochLine& /*line*/) {}
  /// After the line was logged.
  virtual void epoch_logged(Journal& /*journal*/) {}
  /// After the evaluation: what the next epoch starts with.
  virtual void start_next_epoch(Journal& /*journal*/) {}

  /// Figures of the model to keep, by name.
  virtual std::map<std::string, double> evaluate(const RunState& /*state*/) { return {}; }
  /// Text behind the figures of an evaluation, in the log.
  virtual std::string evaluation_note(const std::map<std::string, double>& /*figures*/) const {
    return "";
  }
  /// After the figures were logged.
  virtual void evaluation_logged(Journal& /*journal*/) {}
  /// A picture of what the model does, nullopt if there is none. On rank 0 alone.
  virtual std::optional<Image> sample_picture() { return std::nullopt; }

  /// Where a skipped step became non-finite, for the log; nullopt if unknown.
  virtual std::optional<NonfiniteLocation> locate_nonfinite(const SkippedSteps& /*skipped*/) {
    return std::nullopt;
  }
};

}  // namespace nsvq
