#include "nsvq/recipe/drift.h"

#include "nsvq/core/error.h"
#include "nsvq/recipe/limits.h"

namespace nsvq {

std::vector<Option> drift_options(DriftConfig& drift) {
  return {
      {"drift.every_steps", &drift.every_steps,
       "steps between measurements of encoder drift and assignment churn; 0: one an epoch",
       Range::between(0, kMostSteps), kNotOnResult},
      {"drift.images", &drift.images, "first images of data.val to measure them on; 0: never",
       Range::between(0, kMostAtOnce), kNotOnResult},
      {"drift.ste_gap", &drift.ste_gap,
       "also measure the straight-through gap: how far the decoder's gradient at the codes, which "
       "the encoder gets, is from that at its latents",
       Range::yes_no(), kNotOnResult},
  };
}

void check_drift(const DriftConfig& drift, const ScheduleConfig& schedule) {
  if (drift.ste_gap && drift.images == 0) {
    throw UserError("drift.ste_gap is true, so drift.images must say on how many images");
  }
  if (schedule.commitment != "validation" || drift.images > 0) return;
  throw UserError("schedule.commitment is validation, so drift.images must say on how many images");
}

}  // namespace nsvq
