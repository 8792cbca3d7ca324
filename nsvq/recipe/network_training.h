#pragma once

#include <vector>

#include "nsvq/recipe/run_config.h"
#include "nsvq/settings/option.h"

namespace nsvq {

/// Rows optimizer.*, train.*, dist.* and checkpoint.* of a run that trains a single network, on a
/// tokenizer or without one.
std::vector<Option> network_training_options(RunConfig& run);

}  // namespace nsvq
