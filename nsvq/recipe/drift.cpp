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
  };
}

void check_drift(const DriftConfig& drift, const ScheduleConfig& schedule) {
  if (schedule.commitment != "validation" || drift.images > 0) return;
  throw UserError("schedule.commitment is validation, so drift.images must say on how many images");
}

}  // namespace nsvq
