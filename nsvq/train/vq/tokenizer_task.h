#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "nsvq/data/loader/loader.h"
#include "nsvq/dist/group.h"
#include "nsvq/losses/loss.h"
#include "nsvq/metrics/metric_set.h"
#include "nsvq/quantizers/replacement/replacement.h"
#include "nsvq/settings/config.h"
#include "nsvq/tokenizer/tokenizer.h"
#include "nsvq/train/adam.h"
#include "nsvq/train/task.h"
#include "nsvq/train/vq/adversary.h"
#include "nsvq/train/vq/alarm.h"
#include "nsvq/train/vq/drift.h"
#include "nsvq/train/vq/operator_check.h"
#include "nsvq/train/vq/phase.h"
#include "nsvq/train/weight_average.h"

namespace nsvq {

/// Where a tokenizer's training is, apart from tensors.
struct TokenizerTaskState {
  int64_t phase = 0;                    ///< position in schedule.phases
  int64_t phase_start = 0;              ///< epochs of the schedule before the phase
  int64_t phase_start_step = 0;         ///< steps done when the phase began
  std::vector<double> commitment;       ///< commitment loss of each epoch of the schedule
  std::vector<HealthSigns> health;      ///< of each epoch
  std::set<std::string> alarms;         ///< signs of collapse that were reported and still hold
  std::map<std::string, double> drift;  ///< its last measurement
  double best_psnr = 0;                 ///< of all evaluations
  int64_t best_epoch = 0;
};

/// Throws UserError where stage 1 is to end by a loss that the quantizer does not have.
void check_freeze(const Config& config);
/// Throws UserError where a setting dist.* is of something that the recipe does not have.
void check_dist(const Config& config);
/// Throws UserError, as training does at its start, where weights that losses and metrics need are
/// not in the store.
void check_weights(const Config& config);
/// Throws UserError, as a new run does, where a file that the recipe names is missing or does not
/// fit.
void check_files(const Config& config);

/// Trains a tokenizer by the paper's strategy (section 4): stage 1, frozen-encoder warm-up,
/// stage 2.
class TokenizerTask : public Task {
 public:
  /// `batches`, the training images, outlive the task. Throws UserError for a recipe that cannot
  /// run.
  TokenizerTask(const Config& config, BatchSource& batches, std::shared_ptr<Group> group,
                c10::Device device);

  /// A new run: reads files that the recipe names.
  void start_fresh();
  /// The state at which a phase is in full swing, for benchmarks; enters the phase.
  RunState state_for_benchmark(int64_t phase);

  // Section 4 of the paper: steps and replacement (tokenizer_task.cpp).
  void step(const TensorBatch& batch, Step& step) override;
  void after_step(Loop& loop, const TensorBatch& batch) override;
  void end_epoch(Loop& loop, bool whole) override;
  // Its phases (tokenizer_task_schedule.cpp).
  StepPlan plan(const RunState& state) override;
  void start_next_epoch(Loop& loop) override;
  void go_on(Loop& loop) override;

  // How its steps run (tokenizer_task_setup.cpp).
  std::vector<Adam*> optimizers() override;
  std::vector<torch::Tensor> state_outside_optimizers() override;
  std::string graphs_disabled_reason() const override;
  bool step_syncs_host() const override;
  NonfinitePlace locate_nonfinite(const SkippedSteps& skipped) override;

  // Around it (tokenizer_task_logging.cpp).
  std::vector<std::string> describe(const Loop& loop) const override;
  std::string sample_name() const override { return "images"; }
  std::string phase() const override { return phase_.name; }
  void begin(Loop& loop) override;
  std::map<std::string, double> evaluate(const RunState& state) override;
  bool higher_is_better(const std::string& figure) const override;
  std::string describe_evaluation(const std::map<std::string, double>& values) const override;
  std::optional<Image> sample_picture() override;

  // What a checkpoint holds (tokenizer_task_state.cpp).
  TensorFile model(const RunState& state) override;
  TensorMap training_state() override;
  std::string state() const override;
  TensorMap shared_tensors() override;
  void load(const TensorMap& model, const TensorMap& training, const std::string& state,
            const std::string& from) override;

 private:
  void enter_phase(Loop& loop, int64_t position, const std::string& reason);
  void set_phase(int64_t position);
  torch::Tensor objective(const torch::Tensor& images, const torch::Tensor& reconstructions,
                          const Quantized& quantized, const Step& step, Scalars& scalars);
  struct Passed;
  /// Which of the step's passes (train.accumulate).
  struct Part {
    int64_t number, count;
    bool last() const { return number + 1 == count; }
  };
  bool pass(const torch::Tensor& images, const Part& part, Step& step, Passed& passed);
  QuantizerStep quantizer_terms(const StepInputs& inputs, const Part& part = {0, 1}) const;
  double adversarial_share(const RunState& state) const;
  std::vector<Step::Part> trained_parts(bool adversarial) const;
  TensorMap counts() const;
  /// Of counts of this rank: their sum over ranks.
  torch::Tensor over_ranks(const torch::Tensor& count) const;
  void update_statistics(const torch::Tensor& latents, const torch::Tensor& indices,
                         const StepInputs& inputs, const torch::Tensor& skip);
  void forget_replaced(const torch::Tensor& rows);
  void replace_unused(Loop& loop, const torch::Tensor& usage);
  void advance_schedule(Loop& loop, double commitment);
  void record_plateau(Loop& loop) const;
  void enter_due_phase(Loop& loop);
  Phase phase_of_next_step() const;
  std::optional<std::string> reason_to_leave_phase() const;
  int64_t schedule_epoch_steps() const;
  /// Mean commitment loss of the epoch, and of schedule.epoch_steps steps, of which counting
  /// starts anew; NaN if all steps were skipped.
  static double epoch_commitment(Loop& loop);
  double window_commitment();

  std::vector<std::string> notes(int64_t total_steps) const;
  std::string note_on_freeze(int64_t total_steps) const;
  torch::Tensor from_all_ranks(const torch::Tensor& part);
  void initialise_codebook();
  void log_epoch(Loop& loop, const torch::Tensor& usage);
  void measure_drift(Loop& loop);
  void check_operators(Loop& loop, const torch::Tensor& images);
  void raise_alarms(Loop& loop);

  Config config_;
  BatchSource& batches_;
  std::shared_ptr<Group> group_;
  c10::Device device_;
  std::shared_ptr<const Source> val_source_;
  Loader val_loader_;
  Tokenizer model_, averaged_model_;
  WeightAverage average_;
  Adam optimizer_;
  std::vector<WeightedLoss> losses_;
  std::optional<Adversary> adversary_;
  std::unique_ptr<Replacement> replacement_;  ///< null if the recipe replaces no codes
  torch::Tensor fixed_images_;  ///< [n, 3, H, W] of the validation source, for the sample grids
  std::optional<DriftMeter> drift_;
  std::optional<MetricSet> metrics_;    ///< train.metrics, their networks loaded
  std::optional<OperatorCheck> check_;  ///< train.check

  TokenizerTaskState state_;
  Phase phase_;
  // Of this rank.
  torch::Tensor usage_;              ///< [K], how often each code won in the epoch under way
  torch::Tensor window_usage_;       ///< [K], since the last replacement (replacement.every_steps)
  torch::Tensor window_commitment_;  ///< sum and steps, in the schedule's epoch under way
  // Equal on all ranks.
  torch::Tensor replaced_;  ///< codes overwritten in the epoch under way
};

}  // namespace nsvq
