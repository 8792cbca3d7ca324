#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "nsvq/io/formats/safetensors.h"
#include "nsvq/io/images/image.h"
#include "nsvq/runs/run_state.h"
#include "nsvq/train/adam.h"
#include "nsvq/train/step_runner.h"

namespace nsvq {

class Loop;

/// What is trained: a model, its phases and its objective. The loop (loop.h) and the step runner
/// (step_runner.h) know a task by this interface alone.
class Task {
 public:
  virtual ~Task() = default;

  // Steps.

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
  /// Why a step of this task cannot be captured as a CUDA graph; empty if it can.
  virtual std::string graphs_disabled_reason() const { return ""; }
  /// Whether a step synchronises with the host anyway, so that looking for skipped steps after each
  /// costs nothing.
  virtual bool step_syncs_host() const { return false; }
  /// Where a skipped step became non-finite, for the log.
  virtual NonfinitePlace locate_nonfinite(const SkippedSteps& /*skipped*/) {
    return {"a loss or a gradient"};
  }

  // The run.

  /// Lines for the start of the log.
  virtual std::vector<std::string> describe(const Loop& /*loop*/) const { return {}; }
  /// What a sample of the data is called in figures and messages, in the plural.
  virtual std::string sample_name() const { return "samples"; }
  /// The phase of training, as it stands in every line of metrics.jsonl.
  virtual std::string phase() const { return "train"; }
  /// Before the first step of a new run.
  virtual void begin(Loop& /*loop*/) {}
  /// Before the next step of a run that goes on from a checkpoint, also one whose budget was spent
  /// there and has grown since.
  virtual void go_on(Loop& /*loop*/) {}
  /// After each step, on the host, with the batch that it was on.
  virtual void after_step(Loop& /*loop*/, const TensorBatch& /*batch*/) {}
  /// After the steps of an epoch, which is `whole` unless the budget ended within it: logs it
  /// (Loop::log_epoch).
  virtual void end_epoch(Loop& loop, bool whole);
  /// After the evaluation and the hooks of an epoch: what the next one starts with.
  virtual void start_next_epoch(Loop& /*loop*/) {}
  /// Figures of the model to keep, by name.
  virtual std::map<std::string, double> evaluate(const RunState& /*state*/) { return {}; }
  /// Whether higher is better, of a figure of the evaluation.
  virtual bool higher_is_better(const std::string& /*figure*/) const { return true; }
  /// The evaluation as a line of the log.
  virtual std::string describe_evaluation(const std::map<std::string, double>& values) const;
  /// A picture of what the model does; nothing if there is none to show.
  virtual std::optional<Image> sample_picture() { return std::nullopt; }

  // Checkpoints.

  /// The model to use: tensors, and metadata that describes it.
  virtual TensorFile model(const RunState& state) = 0;
  /// All other tensors that training needs to go on. Names that begin with "epoch.", "step." or
  /// "loss_scale." are the step runner's.
  virtual TensorMap training_state() = 0;
  /// The task's own state apart from tensors, as a JSON object.
  virtual std::string state() const { return "{}"; }
  /// Tensors that are equal on all ranks at all times: weights, their average, moments.
  virtual TensorMap shared_tensors() { return {}; }
  /// Goes on from what these three gave; `training` also holds the step runner's tensors. Throws
  /// UserError calling its origin `from`.
  virtual void load(const TensorMap& model, const TensorMap& training, const std::string& state,
                    const std::string& from) = 0;
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
  /// The next batch will be number `batch` of `epoch`, counted behind its first `used` samples.
  virtual void start(int64_t epoch, int64_t batch, int64_t used) = 0;
  /// Tensors on the run's device; nothing at the end of the epoch.
  virtual std::optional<TensorBatch> next() = 0;
};

}  // namespace nsvq
