#pragma once

#include <memory>
#include <string>
#include <vector>

#include "nsvq/dist/group.h"
#include "nsvq/recipe/tokenizer_config.h"
#include "nsvq/tokenizer/tokenizer.h"
#include "nsvq/train/steps/adam.h"
#include "nsvq/train/steps/weight_average.h"
#include "nsvq/train/task.h"
#include "nsvq/train/vq/codebook_upkeep.h"
#include "nsvq/train/vq/diagnosis.h"
#include "nsvq/train/vq/drift.h"
#include "nsvq/train/vq/health_monitor.h"
#include "nsvq/train/vq/objective.h"
#include "nsvq/train/vq/operator_check.h"
#include "nsvq/train/vq/phase_schedule.h"
#include "nsvq/train/vq/start_report.h"
#include "nsvq/train/vq/validation.h"

namespace nsvq {

/// Trains a tokenizer by the paper's strategy (section 4): stage 1, frozen-encoder warm-up,
/// stage 2.
class TokenizerTask : public Task, public RunObserver {
 public:
  /// `batches`, the training images, outlive the task. Throws UserError for a recipe that cannot
  /// run.
  TokenizerTask(const TokenizerConfig& config, BatchSource& batches, std::shared_ptr<Group> group,
                c10::Device device);

  /// A new run: reads files that the recipe names.
  void start_fresh();
  /// The state at which a phase is in full swing, for benchmarks; enters the phase.
  RunState state_for_benchmark(int64_t phase);

  // Steps.
  StepPlan plan(const RunState& state) override;
  void step(const TensorBatch& batch, Step& step) override;
  std::vector<Adam*> optimizers() override;
  std::vector<torch::Tensor> state_outside_optimizers() override;

  // Phases.
  void initialise(Journal& journal) override;
  void before_step(const RunState& state) override;
  void resume(Journal& journal) override;
  int64_t every_steps() const override { return config_.schedule.epoch_steps; }
  void after_step(Journal& journal, const TensorBatch& batch) override;
  void start_next_epoch(Journal& journal) override;

  std::vector<RunObserver*> observers() override;

  // Checkpoints.
  TensorFile model(const RunState& state) override;
  TensorMap training_state() override;
  std::string state() const override;
  void load(const TensorMap& model, const TensorMap& training, const std::string& state,
            const std::string& from) override;
  TensorMap shared_tensors() override;

 private:
  /// What the passes of a step leave for its end.
  struct Passed {
    Scalars scalars;  ///< means over the passes
    std::vector<torch::Tensor> latents, indices;
  };
  bool pass(const torch::Tensor& images, const SlicePass& slice, Step& step, Passed& passed);
  std::vector<NamedModule> trained_modules(bool adversarial);
  void end_schedule_epoch(Journal& journal, double commitment);
  void enter(Journal& journal, const Transition& transition);
  void freeze_or_train();

  TokenizerConfig config_;
  BatchSource& batches_;
  std::shared_ptr<Group> group_;
  std::string graphs_disabled_reason_;
  bool syncs_host_;
  Tokenizer model_, averaged_model_;
  WeightAverage average_;
  Adam optimizer_;
  PhaseSchedule schedule_;
  Objective objective_;
  CodebookUpkeep upkeep_;
  Validation validation_;
  DriftMonitor drift_;
  OperatorMonitor check_;
  HealthMonitor health_;
  Diagnosis diagnosis_;
  StartReport start_report_;
};

}  // namespace nsvq
