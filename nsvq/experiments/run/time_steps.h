#pragma once

#include <functional>
#include <string>

#include "nsvq/experiments/plan/estimate.h"

namespace nsvq {

/// Times ten training steps on random images, by `nsvq bench step` in processes of `program`, for
/// each of runs_to_time. A kind of run that cannot be timed, or not within two minutes, is left
/// out. `say` prints a line for the user before each, and one for what is left out.
StepTimes time_steps(const Plan& plan, const std::string& program,
                     const std::function<void(const std::string&)>& say);

}  // namespace nsvq
