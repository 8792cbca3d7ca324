#pragma once

#include <map>
#include <string>

#include "nsvq/experiments/plan/plan.h"

namespace nsvq {

/// Figures of a run by metric: what `nsvq eval` wrote, else its last evaluation in training.
std::map<std::string, double> evaluated(const PlannedRun& run);

}  // namespace nsvq
