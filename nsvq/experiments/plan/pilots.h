#pragma once

#include <string>

#include "nsvq/experiments/plan/plan.h"

namespace nsvq {

/// The value whose pilot has the best figure, the first of equal ones; the pilots are finished.
/// Throws RunError if none of them has a finite figure.
std::string chosen_value(const Plan& plan, const PlannedRun& run);

/// The recipe that a run is trained by: with the value that its pilots have chosen, if it has any.
std::string recipe_of(const Plan& plan, const PlannedRun& run);

}  // namespace nsvq
