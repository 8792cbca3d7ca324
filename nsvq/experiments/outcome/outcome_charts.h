#pragma once

#include "nsvq/experiments/outcome/outcome.h"

namespace nsvq {

/// The experiment's charts: curves of the first seed over steps, with the freeze marked, and
/// columns over the values of a setting.
/// A note says which have no line.
void add_charts(const Plan& plan, ExperimentOutcome& outcome);

}  // namespace nsvq
