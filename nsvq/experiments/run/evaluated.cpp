#include "nsvq/experiments/run/evaluated.h"

#include <cmath>

#include "nsvq/io/formats/json.h"
#include "nsvq/runs/layout/layout.h"
#include "nsvq/runs/log.h"

namespace nsvq {

std::map<std::string, double> evaluated(const PlannedRun& run) {
  std::map<std::string, double> figures;
  std::error_code ignored;
  if (std::filesystem::exists(run.run() / kMetricsFile, ignored)) {
    const auto log = read_run_log(run.run() / kMetricsFile);
    if (const auto records = log.of_kind("eval"); !records.empty()) {
      for (const auto& [name, value] : records.back()->values) figures[std::string(name)] = value;
    }
  }
  if (!std::filesystem::exists(run.figures(), ignored)) return figures;
  const auto json = read_json(run.figures());
  for (const auto& [name, value] : json.items()) {
    if (value.is_number()) figures[name] = value.get<double>();
    if (value.is_null()) figures[name] = NAN;
  }
  return figures;
}

}  // namespace nsvq
