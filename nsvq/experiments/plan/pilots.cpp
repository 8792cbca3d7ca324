#include "nsvq/experiments/plan/pilots.h"

#include <cmath>
#include <optional>

#include "nsvq/core/error.h"
#include "nsvq/experiments/run/evaluated.h"
#include "nsvq/metrics/metric.h"
#include "nsvq/runs/list.h"

namespace nsvq {

namespace {

/// The figures of a run that ended early are not those of its budget.
bool has_failed(const PlannedRun& run) {
  std::error_code ignored;
  return std::filesystem::exists(run.run(), ignored) && describe_run(run.run()).state != "finished";
}

size_t best_pilot(const Plan& plan, const PlannedPilots& pilots) {
  const auto* metric = find_metric_kind(pilots.metric);
  const double sign = metric->display.better == Better::higher ? 1 : -1;
  std::optional<size_t> best;
  double best_value = 0;
  for (size_t i = 0; i < pilots.runs.size(); ++i) {
    const auto& run = plan.runs[pilots.runs[i]];
    if (has_failed(run)) continue;
    const auto figures = evaluated(run);
    const auto found = figures.find(metric->name);
    if (found == figures.end() || !std::isfinite(found->second)) continue;
    const double value = sign * found->second;
    if (best && value <= best_value) continue;
    best = i;
    best_value = value;
  }
  if (!best) throw RunError("none of its pilots is finished with a finite {}", metric->name);
  return *best;
}

}  // namespace

std::string chosen_value(const Plan& plan, const PlannedRun& run) {
  return run.pilots.values.at(best_pilot(plan, run.pilots));
}

std::string recipe_of(const Plan& plan, const PlannedRun& run) {
  if (run.pilots.runs.empty()) return run.recipe;
  return run.pilots.recipes.at(best_pilot(plan, run.pilots));
}

}  // namespace nsvq
