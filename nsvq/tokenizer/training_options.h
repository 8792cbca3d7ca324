#pragma once

#include <vector>

#include "nsvq/core/config.h"
#include "nsvq/core/option.h"

namespace nsvq {

/// Rows of schedule.*, train.*, drift.*, alarm.* and checkpoint.*, in this order.
std::vector<Option> training_options(Config& config);

}  // namespace nsvq
