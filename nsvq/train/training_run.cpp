#include "nsvq/train/training_run.h"

#include "nsvq/core/error.h"
#include "nsvq/core/log.h"
#include "nsvq/io/files/file.h"

namespace nsvq {

int64_t total_steps(const TrainConfig& train, const BatchSource& batches, const RunState& state) {
  if (train.steps > 0) return train.steps;
  const int64_t left_of_epoch =
      (batches.samples() - state.used) / batches.step_samples() - state.batch;
  return state.step + left_of_epoch +
         (train.epochs - state.epoch - 1) * batches.batches_per_epoch();
}

void TrainingRun::write(const std::function<void(RunDirectory&)>& writing) {
  if (!folder) return;
  try {
    writing(*folder);
  } catch (const RunMoved&) {
    throw;
  } catch (const RunError& error) {
    disk_full = dynamic_cast<const NoRoom*>(&error) != nullptr;
    if (options.checkpoint.on_error == "stop") {
      throw RunError("{}; {}: {}", error.what(),
                     has_checkpoint ? "earlier checkpoints are intact" : "no checkpoint exists yet",
                     disk_full ? "make room and resume" : "resume when it can be written");
    }
    log("{}; training goes on without (checkpoint.on_error: continue)", error.what());
  }
}

}  // namespace nsvq
