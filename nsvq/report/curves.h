#pragma once

#include <vector>

#include "nsvq/report/chart.h"
#include "nsvq/report/run_log.h"

namespace nsvq {

/// The curves of a run over its steps, each with the phases marked; those without a value are left
/// out. Keys that no curve names get one each at the end.
std::vector<Chart> make_curves(const RunLog& log);

}  // namespace nsvq
