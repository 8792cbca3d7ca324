#include "nsvq/recipe/alarm.h"

#include "nsvq/recipe/limits.h"

namespace nsvq {

std::vector<Option> alarm_options(AlarmConfig& alarm) {
  return {
      {"alarm.epochs", &alarm.epochs,
       "epochs that a sign of collapse must last to raise the alarm; 0: no alarm",
       Range::between(0, kMostEpochs), kNotOnResult},
      {"alarm.utilisation", &alarm.utilisation, "share of codes used in an epoch: alarm below it",
       Range::between(0, 1), kNotOnResult},
      {"alarm.norm_growth", &alarm.norm_growth,
       "norm of the latents, as a multiple of the first epoch's: alarm above it", Range::above(1),
       kNotOnResult},
  };
}

}  // namespace nsvq
