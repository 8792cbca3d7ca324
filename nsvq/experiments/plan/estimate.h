#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nsvq/experiments/plan/plan.h"

namespace nsvq {

/// What a run will take.
struct RunEstimate {
  std::optional<int64_t> steps = 0;  ///< of training that are left; none: of unknown images
  std::optional<double> seconds;
  double bytes = 0;   ///< on disk, that come to those of finished runs
  std::string state;  ///< to do, begun, finished
};

/// Of each run of a plan. Time is that of steps at the speed of the runs of the plan that have been
/// trained so far: of the same run if it was begun, else the mean over those of its kind, in
/// proportion to pixels; nothing where there are none. Disk is four copies of a model's weights a
/// checkpoint.
std::vector<RunEstimate> estimate(const Plan& plan);

/// The plan as a table: runs, steps, time, disk, and how they are estimated.
std::string describe_plan(const Plan& plan);

}  // namespace nsvq
