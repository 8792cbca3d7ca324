#pragma once

#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <vector>

#include "nsvq/recipe/alarm.h"
#include "nsvq/train/run_observer.h"
#include "nsvq/train/vq/alarm.h"
#include "nsvq/train/vq/codebook_upkeep.h"
#include "nsvq/train/vq/drift.h"

namespace nsvq {

/// What an epoch's line says of the codebook, and alarms at signs of collapse (alarm.*).
class HealthMonitor : public RunObserver {
 public:
  /// What is passed by reference outlives it. `codes`: 0 without tokens.
  HealthMonitor(const AlarmConfig& config, int64_t codes, const CodebookUpkeep& upkeep,
                const DriftMonitor& drift)
      : config_(config), codes_(codes), upkeep_(upkeep), drift_(drift) {}

  void end_epoch(Journal& journal, EpochLine& line) override;
  void epoch_logged(Journal& journal) override;

  /// For checkpoints: keys health and alarms.
  nlohmann::json to_json() const;
  /// Throws json::exception for what no monitor has written.
  void from_json(const nlohmann::json& all);

 private:
  AlarmConfig config_;
  int64_t codes_;
  const CodebookUpkeep& upkeep_;
  const DriftMonitor& drift_;
  std::vector<HealthSigns> history_;  ///< of each epoch
  std::set<std::string> alarms_;      ///< signs that were reported and still hold
};

}  // namespace nsvq
