#pragma once

#include <string>
#include <vector>

#include "nsvq/settings/config.h"
#include "nsvq/settings/option.h"

namespace nsvq {

/// Rows of optimizer.*.
std::vector<Option> optimizer_options(OptimizerConfig& optimizer);

/// Rows of a learning-rate schedule; `what` is trained by it.
std::vector<Option> lr_schedule_options(const std::string& section, const std::string& what,
                                        LrScheduleConfig& schedule,
                                        const std::vector<std::string>& shapes);

}  // namespace nsvq
