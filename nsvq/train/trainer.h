#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nsvq/core/config.h"
#include "nsvq/core/progress.h"
#include "nsvq/data/loader.h"
#include "nsvq/dist/group.h"
#include "nsvq/losses/loss.h"
#include "nsvq/quantizers/replacement.h"
#include "nsvq/train/adam.h"
#include "nsvq/train/adversary.h"
#include "nsvq/train/checkpoint.h"
#include "nsvq/train/drift.h"
#include "nsvq/train/ema.h"
#include "nsvq/train/loss_scale.h"
#include "nsvq/train/meter.h"
#include "nsvq/train/phase.h"
#include "nsvq/train/recorded_work.h"
#include "nsvq/train/run_directory.h"
#include "nsvq/train/step_guard.h"

namespace nsvq {

/// How a training ended.
struct Outcome {
  std::map<std::string, double> evaluation;  ///< the last one
  bool finished;                             ///< otherwise it was interrupted and can be resumed
};

enum class Start { fresh, resume };

/// Trains a tokenizer by the paper's strategy (section 4): stage 1, frozen-encoder warm-up,
/// stage 2.
class Trainer {
 public:
  /// A new run in folder `run`, or the one there from its newest undamaged checkpoint on (without
  /// one, from its beginning). Throws UserError, before it touches the folder, for a recipe that
  /// cannot run or that is not the one of the run to resume.
  Trainer(Config config, const std::filesystem::path& run, std::shared_ptr<Group> group,
          Start start = Start::fresh);

  using Hook = std::function<void(const Progression&)>;
  /// Runs `hook` after each step, or after each epoch, behind the trainer's own.
  void on_step(Hook hook) { step_hooks_.push_back(std::move(hook)); }
  void on_epoch(Hook hook) { epoch_hooks_.push_back(std::move(hook)); }

  /// A step of a phase on images that are on the run's device, outside of the run: for measuring,
  /// within an OwnStream. Nothing of it is logged or saved.
  void rehearse(const torch::Tensor& images, int64_t phase = 0);

  /// Why steps are done operation by operation; empty if they are recorded (train.graphs).
  std::string why_not_recorded() const;

  /// Trains until the budget is spent or the process is asked to stop (nsvq/core/interrupt.h).
  Outcome train();

 private:
  // The method, in the order of the paper (trainer.cpp).
  void enter_phase(int64_t position, const std::string& reason);
  bool train_epoch(Progress& progress);
  void train_step(const torch::Tensor& images);
  void step_as_it_is(const torch::Tensor& images, bool adversarial);
  QuantizerStep quantizer_step() const;
  torch::Tensor objective(const torch::Tensor& images, const torch::Tensor& reconstructions,
                          const Quantized& quantized, bool adversarial, Scalars& scalars);
  double adversarial_share() const;
  void finish_epoch();
  void follow_step(const torch::Tensor& latents, const torch::Tensor& indices,
                   const torch::Tensor& bad);
  void note_replaced(const torch::Tensor& rows);
  std::optional<std::string> reason_to_leave_phase() const;

  // How steps are given to a device, and which count (trainer_steps.cpp).
  bool search_waits() const;
  std::vector<torch::Tensor> state_without_optimizer();
  void settle();
  void report_refused(const RefusedSteps& refused);

  // Around it (trainer_upkeep.cpp).
  void initialise_codebook();
  void report_start() const;
  void add_own_hooks();
  void log_step();
  void log_epoch();
  void measure_drift();
  void raise_alarms();
  void run_evaluation();
  void save_samples();
  void write(const std::function<void()>& writing) const;
  int64_t total_steps() const;

  // What a checkpoint holds (trainer_state.cpp).
  void save_checkpoint();
  void require_saved() const;
  Checkpoint checkpoint();
  void load(const Checkpoint& checkpoint, const std::string& from);

  Config config_;
  std::shared_ptr<Group> group_;
  c10::Device device_;
  std::shared_ptr<const Source> train_source_, val_source_;
  Loader train_loader_, val_loader_;
  Tokenizer model_;
  Ema ema_;
  Adam optimizer_;
  LossScale loss_scale_;
  std::vector<WeightedLoss> losses_;
  std::optional<Adversary> adversary_;
  std::unique_ptr<Replacement> replacement_;  ///< null if the recipe replaces no codes
  torch::Tensor fixed_images_;  ///< [n, 3, H, W] of the validation source, for the sample grids
  std::optional<DriftMeter> drift_;

  Progression at_;
  Phase phase_;
  StepGuard guard_;
  int64_t unsettled_ = 0;  ///< steps since the guard was read
  StepRecorder recorder_;
  std::string step_kind_;   ///< of the step under way: its phase, and whether it is adversarial
  torch::Tensor share_;     ///< scalar, of the adversarial training in this step
  torch::Tensor seed_;      ///< scalar, of what state that follows the step draws
  torch::Tensor own_seed_;  ///< scalar, of what the step draws on this rank
  torch::Tensor number_;    ///< scalar, of the step
  torch::Tensor usage_;     ///< [K], how often each code won in the epoch under way
  torch::Tensor replaced_;  ///< codes, in the epoch under way
  Meter epoch_meter_, step_meter_;
  std::string note_;                         ///< behind the progress bar
  std::pair<int64_t, int64_t> saved_{0, 0};  ///< step and epoch of the newest checkpoint
  std::vector<Hook> step_hooks_, epoch_hooks_;
  std::unique_ptr<RunDirectory> run_;
};

}  // namespace nsvq
