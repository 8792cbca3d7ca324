#pragma once

#include <cstddef>

#include "nsvq/experiments/plan/plan.h"
#include "nsvq/experiments/run/job.h"

namespace nsvq {

/// The commands of a planned run: training, then what its last evaluation has not measured. What
/// lies finished in its folder is not done again. Training has `threads` of the CPU (0: all).
Job job_of(const Plan& plan, size_t run, int threads = 0);

/// Whether nothing is left to do for a run.
bool is_done(const Plan& plan, size_t run);

}  // namespace nsvq
