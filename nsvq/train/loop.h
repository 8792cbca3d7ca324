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
#include "nsvq/runs/directory.h"
#include "nsvq/train/checkpointer.h"
#include "nsvq/train/finite_check.h"
#include "nsvq/train/journal.h"
#include "nsvq/train/run_observer.h"
#include "nsvq/train/steps/step_runner.h"
#include "nsvq/train/task.h"
#include "nsvq/train/training_run.h"

namespace nsvq {

/// How a training ended.
struct Outcome {
  std::map<std::string, double> evaluation;  ///< the last one
  bool finished;                             ///< false: it was interrupted and can be resumed
};

/// Trains any task: epochs, budget, interrupts, checkpoints, report. What a step does is the
/// task's, how it runs the step runner's, what is said of it the journal's.
class Loop {
 public:
  /// `task` and `batches` outlive the loop.
  Loop(Task& task, BatchSource& batches, LoopOptions options, std::shared_ptr<Group> group,
       c10::Device device);
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  using Hook = std::function<void(const RunState&)>;
  /// Runs `hook` after each step, or after each epoch, behind the loop's own work.
  void on_step(Hook hook) { step_hooks_.push_back(std::move(hook)); }
  void on_epoch(Hook hook) { epoch_hooks_.push_back(std::move(hook)); }

  /// Goes on from a checkpoint. Throws UserError calling its origin `from`.
  void load(const Checkpoint& checkpoint, const std::string& from);
  /// Where the run is kept, which outlives the loop. To call on rank 0, which alone writes.
  void write_to(RunDirectory& folder) { run_.folder = &folder; }
  /// Trains until the budget is spent or the process is asked to stop (nsvq/core/interrupt.h): then
  /// the run is saved, also within an evaluation, which is repeated when the run goes on.
  Outcome train();
  /// One step outside of any run, for benchmarks, within a SideStreamGuard. Nothing of it is logged
  /// or saved.
  void step_for_benchmark(const TensorBatch& batch, const RunState& state);

  const RunState& state() const { return run_.state; }
  /// Why steps are not captured as CUDA graphs; empty if they are (train.graphs).
  std::string graphs_disabled_reason() const;

 private:
  void share_tensors();
  void train_epoch(Progress& progress);
  void after_step(const TensorBatch& batch, bool checkpoint_asked);
  void finish_epoch();
  void evaluate_epoch();
  void evaluate();
  void show_epoch();
  void save_checkpoint();
  void adopt_batch_size(const std::string& from);

  TrainingRun run_;
  std::vector<RunObserver*> observers_;
  StepRunner steps_;
  Journal journal_;
  Checkpointer checkpointer_;
  FiniteCheck finite_;
  EpochTimes times_;
  std::chrono::steady_clock::time_point start_;  ///< of the first step here
  std::vector<Hook> step_hooks_, epoch_hooks_;
};

}  // namespace nsvq
