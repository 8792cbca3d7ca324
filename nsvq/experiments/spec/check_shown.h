#pragma once

#include "nsvq/experiments/spec/experiment.h"

namespace nsvq {

/// Throws UserError for figures, charts, pictures and claims that cannot be made of the runs.
void check_shown(const Experiment& experiment);

}  // namespace nsvq
