#pragma once

#include <cstdint>
#include <vector>

#include "nsvq/settings/option.h"

namespace nsvq {

/// Settings alarm.*: signs of collapse that are worth a warning.
struct AlarmConfig {
  int64_t epochs = 3;
  double utilisation = 0.1;
  double norm_growth = 10;
};

std::vector<Option> alarm_options(AlarmConfig& alarm);

}  // namespace nsvq
