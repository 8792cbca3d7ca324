#pragma once

#include <torch/types.h>

#include <memory>
#include <string>
#include <vector>

#include "nsvq/dist/group.h"
#include "nsvq/quantizers/replacement/replacement.h"
#include "nsvq/recipe/tokenizer_config.h"
#include "nsvq/tokenizer/tokenizer.h"
#include "nsvq/train/run_observer.h"
#include "nsvq/train/steps/adam.h"
#include "nsvq/train/steps/weight_average.h"
#include "nsvq/train/task.h"
#include "nsvq/train/vq/phase_schedule.h"

namespace nsvq {

/// What no gradient moves in the codebook: its first codes, running statistics of the quantizer,
/// how often each code wins, and in stage 1 the replacement of codes that (almost) nothing chooses.
/// Also counts the commitment loss where the schedule's epochs do not end with those of the images.
class CodebookUpkeep : public RunObserver {
 public:
  /// What is passed by reference outlives it.
  CodebookUpkeep(const TokenizerConfig& config, Tokenizer& model, Adam& optimizer,
                 WeightAverage& average, const PhaseSchedule& schedule,
                 std::shared_ptr<Group> group, c10::Device device);

  /// A codebook that starts from data gets the latents of as many batches as it asks for.
  void initialise(BatchSource& batches);
  /// Before the first step with a frozen encoder: by schedule.refit the codes become k-means
  /// clusters of its latents of training images. Leaves `batches` where `state` is.
  void refit(BatchSource& batches, const RunState& state);

  /// Within a step, behind the optimizers: statistics, and policies that replace codes after steps.
  /// `latents` [B, d, h, w] and `indices` are the step's; a `skip`ped step replaces none.
  void after_step(const torch::Tensor& latents, const torch::Tensor& indices,
                  const StepInputs& inputs, const torch::Tensor& skip);
  /// Within a step, behind the rollback: counts the winners and, of its scalars, the commitment
  /// loss.
  void count(const torch::Tensor& indices, const Scalars& scalars, const torch::Tensor& skip);
  /// What `after_step` changes in the present phase.
  std::vector<torch::Tensor> state_of_steps() const;

  /// Over all ranks: how often each code won in the epoch that ended, [K].
  const torch::Tensor& epoch_usage() const { return epoch_usage_; }
  /// Over all ranks: how often each code has won in the epoch under way, [K], which goes on
  /// counting.
  torch::Tensor usage_so_far() const { return over_ranks(usage_); }
  /// Codes overwritten in the epoch under way.
  int64_t replaced() const { return replaced_.item<int64_t>(); }
  /// The mean commitment loss of schedule.epoch_steps steps, and counts anew; NaN if all were
  /// skipped.
  double take_window_commitment();

  // Windows of usage: replacement.every_steps steps or, if that is 0, an epoch.
  int64_t every_steps() const override { return config_.every_steps; }
  void after_step(Journal& journal, const TensorBatch& batch) override;
  void end_epoch(Journal& journal, EpochLine& line) override;
  void start_next_epoch(Journal& journal) override;

  /// Counters, summed over ranks, and the policy's state ("replacement."), for checkpoints.
  TensorMap training_state() const;
  /// Throws UserError, calling its origin `from`, for a state that does not fit. Counters that it
  /// lacks stay at 0: settings may have begun to ask for them since.
  void load(const TensorMap& training, const std::string& from);

 private:
  void after_window(const RunState& state, const torch::Tensor& usage);
  void forget(const torch::Tensor& rows);
  torch::Tensor from_all_ranks(const torch::Tensor& latents);
  torch::Tensor first_latents(BatchSource& batches, int64_t wanted);
  torch::Tensor clusters_of(const torch::Tensor& latents, uint64_t seed) const;
  void start_anew(const torch::Tensor& rows);
  torch::Tensor over_ranks(const torch::Tensor& count) const;
  TensorMap counts() const;

  ReplacementConfig config_;
  QuantizerConfig quantizer_config_;
  bool refits_;                 ///< schedule.refit is kmeans
  int64_t refit_before_ = -1;   ///< number of the step before which it was done here
  bool windows_of_commitment_;  ///< schedule.epoch_steps is set
  int64_t seed_;
  Tokenizer& model_;
  Adam& optimizer_;
  WeightAverage& average_;
  const PhaseSchedule& schedule_;
  std::shared_ptr<Group> group_;
  std::unique_ptr<Replacement> policy_;  ///< null if the recipe replaces no codes
  torch::Tensor usage_;                  ///< [K] int64, wins in the epoch under way, on this rank
  torch::Tensor window_usage_;           ///< [K], wins since the last window by steps, on this rank
  torch::Tensor window_commitment_;      ///< sum and steps in the schedule's epoch, on this rank
  torch::Tensor epoch_usage_;            ///< [K], of the epoch that ended, over all ranks
  torch::Tensor replaced_;  ///< codes overwritten in the epoch under way, equal on all ranks
};

}  // namespace nsvq
