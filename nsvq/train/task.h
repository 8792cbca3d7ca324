#pragma once

#include <optional>
#include <string>
#include <vector>

#include "nsvq/io/formats/safetensors.h"
#include "nsvq/runs/checkpoint.h"
#include "nsvq/train/run_observer.h"
#include "nsvq/train/steps/adam.h"
#include "nsvq/train/steps/step_runner.h"

namespace nsvq {

/// What is trained: a model, its phases and its objective. The loop (loop.h) and the step runner
/// (step_runner.h) know a task by this interface alone.
class Task {
 public:
  virtual ~Task() = default;

  /// What the next step is.
  virtual StepPlan plan(const RunState& /*state*/) { return {"step"}; }
  /// One step on a batch: forward pass, Step::backward, Step::update, and whatever follows the
  /// weights. In a CUDA graph this runs once, while it is captured; what varies comes by
  /// Step::inputs.
  virtual void step(const TensorBatch& batch, Step& step) = 0;
  /// They move the parameters that have gradients after Step::backward.
  virtual std::vector<Adam*> optimizers() = 0;
  /// Tensors that a step changes by other ways than the optimizers, to be rolled back if it is
  /// skipped.
  virtual std::vector<torch::Tensor> state_outside_optimizers() { return {}; }

  /// Before the first step of a new run: what the model takes from data.
  virtual void initialise(Journal& /*journal*/) {}
  /// Before a step's batch is fetched. Where the epoch turns out to have no further batch, it is
  /// called again for the same step in the next epoch. A task may read batches here to change its
  /// model; it then calls BatchSource::start to go back to the batch that `state` names.
  virtual void before_step(const RunState& /*state*/) {}
  /// What happens around the steps, in the order of the calls. They live as long as the task, which
  /// may be one of them.
  virtual std::vector<RunObserver*> observers() { return {}; }

  /// The model to use: tensors, and metadata that describes it.
  virtual TensorFile model(const RunState& state) = 0;
  /// All other tensors that training needs to go on. Names that begin with "epoch.", "step." or
  /// "loss_scale." are the step runner's.
  virtual TensorMap training_state() = 0;
  /// The task's own state apart from tensors, as a JSON object.
  virtual std::string state() const { return "{}"; }
  /// Goes on from what these three gave; `training` also holds the step runner's tensors. Throws
  /// UserError calling its origin `from`.
  virtual void load(const TensorMap& model, const TensorMap& training, const std::string& state,
                    const std::string& from) = 0;
  /// Tensors that are equal on all ranks at all times: weights, their average, moments.
  virtual TensorMap shared_tensors() { return {}; }
};

/// Batches of training data. What comes out depends on the epoch and the batch's number alone.
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  virtual int64_t batches_per_epoch() const = 0;
  /// Size of the data set.
  virtual int64_t samples() const = 0;
  /// Samples in a step, over all ranks.
  virtual int64_t step_samples() const = 0;
  /// The next batch will be number `batch` of `epoch`, after the `used` samples that were taken by
  /// another number of ranks (RunState::used).
  virtual void start(int64_t epoch, int64_t batch, int64_t used) = 0;
  /// Tensors on the run's device; nullopt at the end of the epoch.
  virtual std::optional<TensorBatch> next() = 0;
};

}  // namespace nsvq
