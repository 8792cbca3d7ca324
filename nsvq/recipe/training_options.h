#pragma once

#include <vector>

#include "nsvq/settings/config.h"
#include "nsvq/settings/option.h"

namespace nsvq {

/// Rows of schedule.*, train.*, drift.*, alarm.* and checkpoint.*, in this order.
std::vector<Option> training_options(Config& config);

}  // namespace nsvq
