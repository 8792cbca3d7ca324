#pragma once

#include <cstdint>
#include <vector>

#include "nsvq/settings/option.h"

namespace nsvq {

/// The error of a grey picture against any image in [-1, 1] is at most this, by absolute and by
/// squared differences.
inline constexpr double kGreyError = 1;

/// Settings alarm.*: signs of collapse that are worth a warning.
struct AlarmConfig {
  int64_t epochs = 3;
  int64_t steps = 1000;
  double utilisation = 0.1;
  double norm_growth = 10;
};

std::vector<Option> alarm_options(AlarmConfig& alarm);

/// Steps of a window, within which signs are sought beside whole epochs; 0: in epochs alone. A
/// window has at most alarm.steps steps, and a run has at least alarm.epochs windows as long as
/// they have kLeastWindow steps.
int64_t window_steps(const AlarmConfig& alarm, int64_t steps_an_epoch, int64_t total_steps);
inline constexpr int64_t kLeastWindow = 10;

}  // namespace nsvq
