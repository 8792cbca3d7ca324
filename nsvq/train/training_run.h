#pragma once

#include <functional>
#include <memory>
#include <string>

#include "nsvq/core/precision.h"
#include "nsvq/dist/group.h"
#include "nsvq/recipe/checkpoint.h"
#include "nsvq/recipe/train.h"
#include "nsvq/runs/checkpoint.h"
#include "nsvq/runs/directory.h"
#include "nsvq/train/task.h"

namespace nsvq {

/// What a loop needs of a program's settings.
struct LoopOptions {
  TrainConfig train;
  CheckpointConfig checkpoint;
  int64_t seed = 0;
  Precision precision = Precision::fp32;
  at::ScalarType gradients = at::kFloat;  ///< in which they are summed over ranks
  std::string settings = {};              ///< as text, for the start of the log
  std::string samples = "samples";        ///< what the data are called, in figures and messages
  std::string init_from = {};   ///< setting that starts a run with another's networks; or empty
  bool best_is_highest = true;  ///< of checkpoint.keep_best; false: the lowest
};

/// Steps of a run by its budget: those that are done and those that are left.
int64_t total_steps(const TrainConfig& train, const BatchSource& batches, const RunState& state);

/// The run under way, shared by loop, journal and checkpointer.
struct TrainingRun {
  Task& task;
  BatchSource& batches;
  LoopOptions options;
  std::shared_ptr<Group> group;
  c10::Device device;
  RunState state = {};
  RunDirectory* folder = nullptr;  ///< on rank 0
  bool has_checkpoint = false;     ///< an intact one
  bool disk_full = false;          ///< when something could not be written last

  int64_t total_steps() const { return nsvq::total_steps(options.train, batches, state); }
  /// Writes to the folder, on rank 0. What cannot be written (a full disk) ends the run with a
  /// RunError or, if checkpoint.on_error says so, is left out with a line in the log.
  void write(const std::function<void(RunDirectory&)>& writing);
};

}  // namespace nsvq
