#pragma once

#include <string>
#include <vector>

#include "nsvq/report/chart.h"
#include "nsvq/runs/log.h"

namespace nsvq {

/// A line of a curve: the values of one key in the records of one kind.
struct CurveLine {
  std::string kind, key, name;
};

struct Curve {
  std::string title, y_label;
  std::vector<CurveLine> lines;
  bool decades = false;  ///< lines that are zero throughout are absent; logarithmic at need
};

struct CurveTopic {
  std::string title;
  std::vector<Curve> curves;
};

/// Every curve that a report knows by name, in the order of the page (curve_table.cpp).
const std::vector<CurveTopic>& known_curves();

/// Charts under one heading.
struct ChartGroup {
  std::string title;
  std::vector<Chart> charts;
};

/// The curves of a run over its steps; those without a value are left out. Keys that no curve names
/// get one each at the end.
std::vector<ChartGroup> make_curves(const RunLog& log);

}  // namespace nsvq
