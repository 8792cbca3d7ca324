#include "nsvq/recipe/alarm.h"

#include <algorithm>

#include "nsvq/recipe/limits.h"

namespace nsvq {

std::vector<Option> alarm_options(AlarmConfig& alarm) {
  return {
      {"alarm.epochs", &alarm.epochs,
       "epochs, or windows of steps, that a sign of collapse must last to raise the alarm; 0: no "
       "alarm",
       Range::between(0, kMostEpochs), kNotOnResult},
      {"alarm.steps", &alarm.steps,
       "where an epoch has more steps, signs are also sought in windows of so many; a run of fewer "
       "than alarm.epochs epochs has windows of its alarm.epochs-th part; 0: in epochs alone",
       Range::between(0, kMostSteps), kNotOnResult},
      {"alarm.utilisation", &alarm.utilisation, "share of codes used in an epoch: alarm below it",
       Range::between(0, 1), kNotOnResult},
      {"alarm.norm_growth", &alarm.norm_growth,
       "norm of the latents, as a multiple of the first epoch's: alarm above it", Range::above(1),
       kNotOnResult},
  };
}

int64_t window_steps(const AlarmConfig& alarm, int64_t steps_an_epoch, int64_t total_steps) {
  if (alarm.epochs == 0 || alarm.steps == 0) return 0;
  const int64_t part = std::max(total_steps / alarm.epochs, kLeastWindow);
  const int64_t window = std::min(alarm.steps, part);
  return window < steps_an_epoch ? window : 0;
}

}  // namespace nsvq
