#pragma once

#include <cstdint>
#include <vector>

#include "nsvq/recipe/schedule.h"
#include "nsvq/settings/option.h"

namespace nsvq {

/// Settings drift.*: how far the encoder and its assignments move, measured on the first evaluation
/// images.
struct DriftConfig {
  int64_t every_steps = 0;
  int64_t images = 64;
  bool ste_gap = false;
};

std::vector<Option> drift_options(DriftConfig& drift);

/// Throws UserError where a plateau is to be watched on no images.
void check_drift(const DriftConfig& drift, const ScheduleConfig& schedule);

}  // namespace nsvq
