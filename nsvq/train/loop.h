#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nsvq/core/progress.h"
#include "nsvq/dist/group.h"
#include "nsvq/runs/checkpoint.h"
#include "nsvq/runs/run_directory.h"
#include "nsvq/settings/config.h"
#include "nsvq/train/epoch_times.h"
#include "nsvq/train/step_runner.h"
#include "nsvq/train/task.h"

namespace nsvq {

/// How a training ended.
struct Outcome {
  std::map<std::string, double> evaluation;  ///< the last one
  bool finished;                             ///< otherwise it was interrupted and can be resumed
};

/// What a loop takes of a program's settings.
struct LoopOptions {
  TrainConfig train;
  CheckpointConfig checkpoint;
  int64_t seed = 0;
  Precision precision = Precision::fp32;
  at::ScalarType gradients = at::kFloat;  ///< in which they are summed over ranks
  std::string settings;                   ///< as text, for the start of the log
};

/// Steps of a run by its budget: those that are done and those that are left.
int64_t total_steps(const TrainConfig& train, const BatchSource& batches, const RunState& state);

/// Trains any task: epochs, budget, interrupts, checkpoints, logs, progress and report. What a step
/// does is the task's; how it runs is the step runner's.
class Loop {
 public:
  /// `task` and `batches` outlive the loop.
  Loop(Task& task, BatchSource& batches, LoopOptions options, std::shared_ptr<Group> group,
       c10::Device device);

  using Hook = std::function<void(const RunState&)>;
  /// Runs `hook` after each step, or after each epoch, behind the loop's own work.
  void on_step(Hook hook) { step_hooks_.push_back(std::move(hook)); }
  void on_epoch(Hook hook) { epoch_hooks_.push_back(std::move(hook)); }

  /// Goes on from a checkpoint. Throws UserError calling its origin `from`.
  void load(const Checkpoint& checkpoint, const std::string& from);
  /// Where the run is kept, which outlives the loop. To call on rank 0, which alone writes.
  void write_to(RunDirectory& run) { run_ = &run; }
  /// Trains until the budget is spent or the process is asked to stop (nsvq/core/interrupt.h): then
  /// the run is saved, also within an evaluation, which is done anew when the run goes on.
  Outcome train();
  /// One step outside of any run, for benchmarks, within a SideStreamGuard. Nothing of it is logged
  /// or saved.
  void step_for_benchmark(const TensorBatch& batch, const RunState& state);

  /// Why steps are not captured as CUDA graphs; empty if they are (train.graphs).
  std::string graphs_disabled_reason() const;

  // For tasks.

  const RunState& state() const { return state_; }
  int64_t steps_per_epoch() const { return batches_.batches_per_epoch(); }
  int64_t total_steps() const { return nsvq::total_steps(options_.train, batches_, state_); }
  /// Means of the epoch's scalars over its steps and ranks.
  std::map<std::string, double> epoch_means();
  /// Reports steps that were skipped as non-finite, or throws RunError if the run is to end by
  /// them.
  void check_skipped_steps();
  /// A line of metrics.jsonl and points in TensorBoard.
  void record(const std::string& kind, const std::map<std::string, double>& values);
  void record_phase(const std::string& reason);
  void record_alarm(const std::string& sign, const std::string& reason);
  /// The epoch's line: `values` beside loss, skipped steps and seconds; `text` behind the loss.
  void log_epoch(std::map<std::string, double> values, const std::string& text);

 private:
  void train_epoch(Progress& progress);
  void finish_epoch();
  void share_tensors();
  void evaluate_epoch();
  void show_epoch();
  void after_step(const TensorBatch& batch, bool checkpoint_asked);
  std::string place_of_nonfinite(const SkippedSteps& skipped);
  void report_skipped(const SkippedSteps& skipped, int64_t first);

  // Logs (loop_logging.cpp).
  void report_start() const;
  RunState place_in_log() const;
  void log_step();
  void add_traffic(std::map<std::string, double>& values);
  void run_evaluation();
  void note_best();
  int64_t best_step() const;
  void save_samples();
  void write(const std::function<void()>& writing);
  void save_checkpoint();
  void require_finite() const;
  void require_saved() const;

  /// What distinguishes one checkpoint from another of the same step.
  struct Place {
    int64_t step = 0, epoch = 0;
    bool evaluation_pending = false;
    bool operator==(const Place&) const = default;
  };
  Place place() const { return {state_.step, state_.epoch, state_.evaluation_pending}; }
  bool has_checkpoint() const { return saved_ != Place{}; }

  Task& task_;
  BatchSource& batches_;
  LoopOptions options_;
  std::shared_ptr<Group> group_;
  c10::Device device_;
  RunDirectory* run_ = nullptr;    ///< on rank 0
  LogPosition before_evaluation_;  ///< of the newest epoch, on rank 0
  RunState state_;
  StepRunner steps_;
  EpochTimes times_;
  std::chrono::steady_clock::time_point start_;  ///< of the first step here
  std::string note_;                             ///< behind the progress bar
  Place saved_;                                  ///< of the newest checkpoint
  bool epoch_is_whole_ = true;                   ///< of the one that ended last
  bool disk_full_ = false;                       ///< when something could not be written last
  Group::Traffic traffic_;                       ///< at the last line of a step
  int64_t traffic_step_ = 0;                     ///< of that line
  std::vector<Hook> step_hooks_, epoch_hooks_;
};

}  // namespace nsvq
