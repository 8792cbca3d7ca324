#pragma once

#include <string>

#include "nsvq/recipe/optimizer.h"

namespace nsvq {

/// Factor on the learning rate in step `step`, counted from 0, of `steps` steps: rises linearly
/// over the warm-up, so that step 0 has 1 / warmup_steps, and falls from 1 to final_share at the
/// end, over the last fall_share of the steps or all after the warm-up.
double lr_factor(const LrScheduleConfig& schedule, int64_t step, int64_t steps);

/// A line for a schedule that does not fit a run of so many steps; empty if it does. `section`
/// names its settings.
std::string note_on_schedule(const std::string& section, const LrScheduleConfig& schedule,
                             int64_t steps);

/// Whether a learning rate changes at all.
bool is_constant(const LrScheduleConfig& schedule);

}  // namespace nsvq
