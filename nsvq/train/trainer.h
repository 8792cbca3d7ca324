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
#include "nsvq/train/adam.h"
#include "nsvq/train/checkpoint.h"
#include "nsvq/train/ema.h"
#include "nsvq/train/meter.h"
#include "nsvq/train/phase.h"
#include "nsvq/train/run_directory.h"

namespace nsvq {

/// Trains a tokenizer by the paper's strategy (section 4): stage 1, frozen-encoder warm-up,
/// stage 2.
class Trainer {
 public:
  Trainer(Config config, const std::filesystem::path& run, std::shared_ptr<Group> group);

  using Hook = std::function<void(const Progression&)>;
  /// Runs `hook` after each step, or after each epoch, behind the trainer's own.
  void on_step(Hook hook) { step_hooks_.push_back(std::move(hook)); }
  void on_epoch(Hook hook) { epoch_hooks_.push_back(std::move(hook)); }

  /// Trains to the end of the budget and returns the last evaluation.
  std::map<std::string, double> train();

 private:
  // The method, in the order of the paper.
  void enter_phase(int64_t position, const std::string& reason);
  void train_epoch(Progress& progress);
  void train_step(const torch::Tensor& images);
  int64_t replace_codes();
  std::optional<std::string> reason_to_leave_phase() const;

  // Around it.
  void initialise_codebook();
  void report_start() const;
  void check_finite(const std::map<std::string, torch::Tensor>& scalars) const;
  void add_own_hooks();
  void log_step();
  void log_epoch();
  void run_evaluation();
  void save_samples();
  void save_checkpoint();
  bool last_epoch() const { return at_.epoch == config_.train.epochs; }

  Config config_;
  std::shared_ptr<Group> group_;
  c10::Device device_;
  std::shared_ptr<const Source> train_source_, val_source_;
  Loader train_loader_, val_loader_;
  Tokenizer model_;
  Ema ema_;
  Adam optimizer_;
  std::vector<WeightedLoss> losses_;
  torch::Tensor fixed_images_;  ///< [n, 3, H, W] of the validation source, for the sample grids

  Progression at_;
  Phase phase_;
  torch::Tensor usage_;  ///< [K], how often each code won in the epoch under way
  Meter epoch_meter_, step_meter_;
  int64_t replaced_ = 0;  ///< codes, at the end of the last epoch
  std::string note_;      ///< behind the progress bar
  std::vector<Hook> step_hooks_, epoch_hooks_;
  std::map<std::string, double> evaluation_;
  RunDirectory run_;  ///< last, so that a recipe that cannot run leaves no folder behind
};

}  // namespace nsvq
