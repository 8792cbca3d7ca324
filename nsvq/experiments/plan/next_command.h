#pragma once

#include <string>
#include <vector>

#include "nsvq/experiments/plan/run_view.h"

namespace nsvq {

/// The arguments of the command of this program that a run needs next: training, then `nsvq eval`
/// for the metrics that its last evaluation lacks, or the command that makes its file. Empty once
/// all is done. Throws UserError where the folder holds a run of different settings.
std::vector<std::string> next_command(const RunView& view);

/// Whether nothing is left to do for a run.
bool is_done(const RunView& view);

}  // namespace nsvq
