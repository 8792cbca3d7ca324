#pragma once

#include <string>

#include "nsvq/settings/config.h"

namespace nsvq {

/// Factor on the learning rate in step `step`, counted from 0, of `steps` steps: rises linearly
/// over the warm-up, so that step 0 has 1 / warmup_steps, and falls from 1 after it to final_share
/// at the end.
double lr_factor(const LrScheduleConfig& schedule, int64_t step, int64_t steps);

/// Factor on the discriminator's rate in step `step` of a run of `steps` steps. A schedule of its
/// own counts from adversarial.start_step on; "same" is the generator's factor.
double discriminator_lr_factor(const Config& config, int64_t step, int64_t steps);

/// A line for a schedule that does not fit a run of so many steps; empty if it does. `section` is
/// that of its settings.
std::string note_on_schedule(const std::string& section, const LrScheduleConfig& schedule,
                             int64_t steps);

/// Whether a learning rate changes at all.
bool is_constant(const LrScheduleConfig& schedule);

}  // namespace nsvq
