#pragma once

#include <string>
#include <vector>

#include "nsvq/report/chart.h"
#include "nsvq/runs/run_log.h"

namespace nsvq {

/// Charts under one heading.
struct ChartGroup {
  std::string title;
  std::vector<Chart> charts;
};

/// The curves of a run over its steps; those without a value are left out. Keys that no curve names
/// get one each at the end.
std::vector<ChartGroup> make_curves(const RunLog& log);

}  // namespace nsvq
