#pragma once

#include "nsvq/experiments/experiment.h"

namespace nsvq {

/// Throws UserError for figures, charts, pictures and claims that cannot be made of the runs.
void check_shown(const Experiment& experiment);

}  // namespace nsvq
