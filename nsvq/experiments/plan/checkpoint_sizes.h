#pragma once

#include <map>
#include <string>

#include "nsvq/experiments/plan/plan.h"

namespace nsvq {

/// Bytes of runs' checkpoints: averaged weights, weights and Adam's two moments; of a discriminator
/// without an average. Of equal models one is made.
class CheckpointSizes {
 public:
  /// 0 for a run that is not trained, but only makes a file.
  double of(const Plan& plan, const PlannedRun& run);

 private:
  double of_tokenizer(const PlannedRun& run);
  double of_diffusion(const Plan& plan, const PlannedRun& run);

  std::map<std::string, double> sizes_;  ///< of one checkpoint, by the settings that make shapes
};

}  // namespace nsvq
