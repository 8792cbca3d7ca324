#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>

#include "nsvq/experiments/plan/estimate.h"
#include "nsvq/experiments/plan/plan.h"
#include "nsvq/experiments/run/scheduler.h"

namespace nsvq {

/// Numbers of runs that failed, of pictures that failed, and of both for which no time was left.
struct ReproduceResult {
  size_t failed = 0, no_pictures = 0, left = 0;
};

/// Runs what of the plan is not finished, then writes its pages (outcome/pages.h). A run that fails
/// is named in its cells. Throws Interrupted when asked to stop.
ReproduceResult reproduce(const Plan& plan, const std::filesystem::path& out,
                          const ScheduleOptions& options);

/// A planned run as a job: its commands are those of next_command, its recipe is written before it
/// is trained. Training has `threads` of the CPU (0: all).
Job job_of(const Plan& plan, size_t run, int threads = 0);

/// Times ten training steps on random images, by `nsvq bench step` in processes of `program`, for
/// each of runs_to_time. A kind of run that cannot be timed, or not within two minutes, is left
/// out. `say` prints a line for the user before each, and one for what is left out.
StepTimes time_steps(const Plan& plan, const std::string& program,
                     const std::function<void(const std::string&)>& say);

}  // namespace nsvq
