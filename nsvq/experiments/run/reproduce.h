#pragma once

#include <string>
#include <vector>

#include "nsvq/experiments/outcome/outcome.h"
#include "nsvq/experiments/plan/plan.h"
#include "nsvq/experiments/run/job.h"

namespace nsvq {

/// Numbers of runs that failed, of pictures that did, and of both for which no time was left.
struct ReproduceResult {
  size_t failed = 0, no_pictures = 0, left = 0;
};

/// Runs what of the plan is not finished, then writes for each experiment OUT/NAME.html, NAME.md
/// and NAME.json, and of several experiments OUT/index.html. A run that fails is named in its
/// cells. Throws Interrupted when asked to stop.
ReproduceResult reproduce(const Plan& plan, const std::filesystem::path& out,
                          const ScheduleOptions& options);

/// The same pages of what is finished so far; `results` are of the plan's runs, then of pictures.
void write_outcomes(const Plan& plan, const std::filesystem::path& out,
                    const std::vector<JobResult>& results);

}  // namespace nsvq
