#pragma once

#include <torch/types.h>

#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <vector>

#include "nsvq/core/tensor_map.h"
#include "nsvq/train/run_observer.h"
#include "nsvq/train/vq/alarm.h"
#include "nsvq/train/vq/codebook_upkeep.h"
#include "nsvq/train/vq/drift.h"

namespace nsvq {

/// What an epoch's line says of the codebook, and alarms at signs of collapse (alarm.*). Where
/// epochs are long or the run is short, windows of steps are checked too.
class HealthMonitor : public RunObserver {
 public:
  /// What is passed by reference outlives it. `codes`: 0 without tokens; `window`: by window_steps.
  HealthMonitor(const TokenizerConfig& config, int64_t codes, int64_t window,
                const CodebookUpkeep& upkeep, const DriftMonitor& drift);

  int64_t every_steps() const override { return window_; }
  void after_step(Journal& journal, const TensorBatch& batch) override;
  void end_epoch(Journal& journal, EpochLine& line) override;
  void epoch_logged(Journal& journal) override;
  void start_next_epoch(Journal& journal) override;

  /// For checkpoints: keys health, alarms and, where there are windows of steps, windows.
  nlohmann::json to_json() const;
  /// Throws json::exception for what no monitor has written. Windows of another length are
  /// forgotten.
  void from_json(const nlohmann::json& all);
  TensorMap training_state() const;
  /// Throws UserError, calling its origin `from`, for a state that does not fit.
  void load(const TensorMap& training, const std::string& from);

 private:
  /// The windows of steps so far, and where in the epoch's counts the one under way began.
  struct Windows {
    std::vector<HealthSigns> history;
    std::set<std::string> alarms;  ///< signs that were reported and still hold
    double error_sum = 0, error_steps = 0;
    torch::Tensor usage;  ///< [K] int64 on the CPU
  };

  double window_error(const Journal& journal);
  double window_utilisation();
  void raise(Journal& journal, std::set<std::string>& reported,
             const std::vector<AlarmSign>& signs);

  const TokenizerConfig& config_;
  int64_t codes_, window_;
  const CodebookUpkeep& upkeep_;
  const DriftMonitor& drift_;
  std::vector<HealthSigns> history_;  ///< of each epoch
  std::set<std::string> alarms_;      ///< signs of epochs that were reported and still hold
  Windows windows_;
};

}  // namespace nsvq
