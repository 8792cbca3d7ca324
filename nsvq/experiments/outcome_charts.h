#pragma once

#include <vector>

#include "nsvq/experiments/outcome.h"

namespace nsvq {

/// The experiment's charts: curves of the first seed over steps, with the freeze marked, and
/// columns over the values of a setting.
std::vector<Chart> make_charts(const Plan& plan, const ExperimentOutcome& outcome);

}  // namespace nsvq
