#pragma once

#include <map>
#include <string>
#include <vector>

#include "nsvq/metrics/conventions.h"

namespace nsvq {

struct MetricColumn {
  std::string title;
  std::map<std::string, double> values;
};

/// Figures as lines for people: a name, a value for each column, the unit, and the choices behind
/// the figure. Titles stand above the columns where there are several.
std::string metric_table(const std::vector<MetricColumn>& columns, const Conventions& conventions);
/// One column.
std::string metric_table(const std::map<std::string, double>& values,
                         const Conventions& conventions = {});

}  // namespace nsvq
