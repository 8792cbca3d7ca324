#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nsvq/recipe/tokenizer_config.h"
#include "nsvq/tokenizer/tokenizer.h"
#include "nsvq/train/task.h"
#include "nsvq/train/vq/objective.h"
#include "nsvq/train/vq/phase_schedule.h"
#include "nsvq/train/vq/validation.h"

namespace nsvq {

/// The start of the log of a tokenizer's training: images, parameters, codes, weights of metrics,
/// and warnings.
class StartReport : public RunObserver {
 public:
  /// All outlive it.
  StartReport(const TokenizerConfig& config, const BatchSource& batches, const Tokenizer& model,
              const Objective& objective, const PhaseSchedule& schedule,
              const Validation& validation)
      : config_(config),
        batches_(batches),
        model_(model),
        objective_(objective),
        schedule_(schedule),
        validation_(validation) {}

  std::vector<std::string> describe(int64_t total_steps) const override;

 private:
  std::vector<std::string> warnings(int64_t total_steps) const;
  std::string warning_of_freeze(int64_t total_steps) const;

  const TokenizerConfig& config_;
  const BatchSource& batches_;
  const Tokenizer& model_;
  const Objective& objective_;
  const PhaseSchedule& schedule_;
  const Validation& validation_;
};

}  // namespace nsvq
