#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nsvq/experiments/plan/plan.h"

namespace nsvq {

/// What is left to do for a run.
struct RunEstimate {
  std::optional<int64_t> steps = 0;  ///< training steps left; nullopt where images are missing
  std::optional<double> seconds;     ///< nullopt where no speed is known
  std::string state;                 ///< to do, begun, finished
};

/// Estimates per run of a plan; time from logged steps of the run itself, else from the mean over
/// runs of its kind and number of GPUs, in proportion to pixels.
std::vector<RunEstimate> estimate_runs(const Plan& plan);

/// The plan as a table: runs, steps, time, and how it is estimated.
std::string plan_table(const Plan& plan);

}  // namespace nsvq
