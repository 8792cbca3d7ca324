#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "nsvq/dist/group.h"
#include "nsvq/train/run_observer.h"
#include "nsvq/train/training_run.h"

namespace nsvq {

/// What a run tells people: lines of the log, of metrics.jsonl and of TensorBoard, and pictures.
class Journal {
 public:
  /// Both outlive the journal.
  Journal(TrainingRun& run, StepRunner& steps) : run_(run), steps_(steps) {}

  /// Where the run is.
  const RunState& state() const { return run_.state; }
  /// Whether steps are left of the budget.
  bool more_to_come() const { return run_.state.step < run_.total_steps(); }
  /// The phase of training, as it stands in every line of metrics.jsonl.
  std::string phase() const { return run_.task.plan(run_.state).phase; }
  /// Means of the epoch's scalars over its steps and ranks.
  std::map<std::string, double> epoch_means() const { return steps_.epoch_meter().means(); }
  /// One of them; NaN if no step had it.
  double epoch_mean(const std::string& name) const;
  /// Their sums and numbers of steps.
  std::map<std::string, Meter::Total> epoch_totals() const { return steps_.epoch_meter().totals(); }

  /// A line of metrics.jsonl and points in TensorBoard; `lists` stand in the line alone.
  void record(const std::string& kind, const std::map<std::string, double>& values,
              const std::map<std::string, std::vector<double>>& lists = {});
  /// The present phase begins.
  void record_phase(const std::string& reason);
  void record_alarm(const std::string& sign, const std::string& reason);
  /// Writes the report.html of a run that stops here anew, if there is one, without auto-reload.
  void end_report();

  // By the loop.

  /// The start of the log; `observers` have lines in it.
  void log_start(const std::vector<RunObserver*>& observers,
                 const std::string& graphs_disabled_reason) const;
  /// Traffic between ranks is counted from here on.
  void count_traffic();
  /// Means since the last line of steps.
  void log_steps();
  void log_epoch(EpochLine line);
  /// The run's evaluation.
  void log_evaluation(const std::string& note);
  /// Text behind the progress bar.
  const std::string& progress_note() const { return progress_note_; }

 private:
  RunState position() const;
  void log_continuation() const;
  void add_traffic(std::map<std::string, double>& values);

  TrainingRun& run_;
  StepRunner& steps_;
  std::string progress_note_;
  Group::Traffic traffic_;    ///< at the last line of steps
  int64_t traffic_step_ = 0;  ///< of that line
};

/// Where the time of epochs goes, in seconds. With few images what follows an epoch can take longer
/// than its steps, which does not show in their rate.
class EpochTimes {
 public:
  double evaluation = 0, samples = 0, checkpoints = 0;

  /// A line that names the settings, once, when these seconds exceed both the rest of `elapsed`, in
  /// which steps ran, and `kNoticeable`; empty before and after.
  std::string advice(double elapsed);

  static constexpr double kNoticeable = 20;

 private:
  bool said_ = false;
};

/// Adds its own lifetime to a number of seconds.
class TimeGuard {
 public:
  explicit TimeGuard(double& seconds) : seconds_(seconds) {}
  TimeGuard(const TimeGuard&) = delete;
  TimeGuard& operator=(const TimeGuard&) = delete;
  ~TimeGuard() {
    seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  double& seconds_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace nsvq
