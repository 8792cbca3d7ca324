#pragma once

#include "nsvq/experiments/spec/experiment.h"

namespace nsvq {

/// Throws UserError for what does not fit together in an experiment: names that nothing has, a run
/// without a recipe, runs that need each other. Fills in titles that are left out, and makes paths
/// of those relative to the file.
void check_experiment(Experiment& experiment);

/// Throws UserError for recipes that are not there.
void require_recipes(const Experiment& experiment);

}  // namespace nsvq
