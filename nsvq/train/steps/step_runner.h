#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nsvq/core/device.h"
#include "nsvq/core/precision.h"
#include "nsvq/dist/group.h"
#include "nsvq/train/meter.h"
#include "nsvq/train/steps/cuda_graph.h"
#include "nsvq/train/steps/gradient_buckets.h"
#include "nsvq/train/steps/loss_scale.h"
#include "nsvq/train/steps/step_guard.h"

namespace nsvq {

class Task;

/// Tensors of a batch, on the run's device.
using TensorBatch = std::vector<torch::Tensor>;

/// What a step is, known before it runs.
struct StepPlan {
  std::string kind;  ///< steps of one kind run the same kernels, so they share one CUDA graph
  double share = 1;  ///< weight in [0, 1] of a ramped loss, such as the adversarial one
  std::vector<double> lr_factors = {};  ///< on the optimizers' learning rates; empty: 1
  bool adversarial = false;             ///< a discriminator trains too
  bool extra_terms = false;     ///< has losses that most steps lack: runs eagerly between replays
  std::string phase = "train";  ///< of training, in every line of metrics.jsonl
  std::string graphs_disabled_reason = {};  ///< why no CUDA graph can capture it; empty if one can
  bool syncs_host = false;                  ///< waits for the device anyway: checks cost nothing
};

/// A part of a model whose gradient norm is logged as gradient_norm_NAME.
struct NamedModule {
  std::string name;
  const torch::nn::Module* module;
};

/// What varies from step to step: scalars on the device, which a captured CUDA graph reads.
struct StepInputs {
  torch::Tensor step;        ///< int64, number of the step in the run, from 0
  torch::Tensor seed;        ///< int64, for draws that are equal on every rank
  torch::Tensor noise_seed;  ///< int64, for draws by the position of a sample among all ranks'
  torch::Tensor share;       ///< fp32, the plan's
};

/// What signals ask of a run.
struct Asked {
  bool to_stop = false, for_checkpoint = false;
};

class StepRunner;

/// The step under way, as the task sees it.
class Step {
 public:
  Step(StepRunner& runner, const TensorBatch& batch) : runner_(runner), batch_(batch) {}

  const StepPlan& plan() const;      ///< as Task::plan gave it
  const StepInputs& inputs() const;  ///< what varies, as tensors
  const LossScale& loss_scale() const;

  /// Adds gradients of a loss to those of a module's parameters, by way of the loss scale. After
  /// the `last` pass of the step they are means over ranks.
  void backward(const torch::Tensor& loss, const torch::nn::Module& module, bool last = true);
  /// Whether `here` is true on any rank. Synchronises with the host.
  bool any_rank(bool here);
  /// Moves every parameter that has a gradient by its optimizer, unless a scalar or the gradient
  /// norm of one of the modules is not finite: then the step is skipped. List all modules that
  /// train, since no other gradient is looked at. Returns whether the step is skipped, a boolean on
  /// the device.
  const torch::Tensor& update(Scalars scalars, const std::vector<NamedModule>& modules);
  /// Undoes, if the step is skipped, what it changed of the task's state outside the optimizers.
  void rollback();
  /// Ends a step before its backward pass, because of non-finite `scalars` that the host has read.
  void abandon(const Scalars& scalars);

 private:
  StepRunner& runner_;
  const TensorBatch& batch_;
};

/// Runs a task's steps: eagerly or as CUDA graphs, skipping non-finite ones, with the loss scale.
class StepRunner {
 public:
  struct Options {
    bool graphs = false;
    bool stop_at_nonfinite = true;  ///< after a non-finite step no later one changes anything
    Precision precision = Precision::fp32;
    int64_t seed = 0;
    at::ScalarType gradients = at::kFloat;  ///< in which they are summed over ranks
  };

  StepRunner(Task& task, const Options& options, std::shared_ptr<Group> group, c10::Device device);

  /// Step number `step` of the run on a batch. `asked` of this rank travels with the step's
  /// scalars.
  void run(const TensorBatch& batch, const StepPlan& plan, int64_t step, const Asked& asked = {});
  /// Signals seen by any rank, equal on all of them. On a GPU the answer lags `kStepsInFlight`
  /// steps. Each step's is returned once.
  Asked asked_of_ranks();

  /// Kind of the last step.
  const std::string& kind() const { return plan_.kind; }
  /// Which of the steps since the last call were skipped, counted from the first of them, and how
  /// many steps that were. Synchronises with the device.
  struct Checked {
    int64_t steps = 0;
    std::optional<SkippedSteps> skipped;
  };
  Checked check_skipped_steps();
  void clear_gradients();
  double loss_scale_factor() const;

  /// Means since the last log line, and over the epoch.
  Meter& step_meter() { return step_meter_; }
  Meter& epoch_meter() { return epoch_meter_; }

  /// Meters and loss scale, for checkpoints.
  TensorMap state() const;
  void load(const TensorMap& state, const std::string& from);

 private:
  friend class Step;
  GatheredScalars over_ranks(const Scalars& scalars);
  GradientBuckets& buckets_of(const torch::nn::Module& module);
  void start_step();
  void finish_step();

  Task& task_;
  Options options_;
  std::shared_ptr<Group> group_;
  c10::Device device_;
  std::map<const torch::nn::Module*, std::unique_ptr<GradientBuckets>> buckets_;
  StepPlan plan_;
  StepInputs inputs_;
  LossScale loss_scale_;
  StepGuard guard_;
  StepGraph graph_;
  GatheredScalars scalars_;  ///< of the step under way; no values in an abandoned step
  Meter step_meter_, epoch_meter_;
  torch::Tensor asked_, asked_of_all_;  ///< [2] fp64, of the step under way
  std::deque<HostCopy> answers_;        ///< asked_of_all_ of steps not returned yet
  int64_t steps_since_check_ = 0;
};

}  // namespace nsvq
