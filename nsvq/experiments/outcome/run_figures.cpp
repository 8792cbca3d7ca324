#include "nsvq/experiments/outcome/run_figures.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "nsvq/experiments/outcome/comparison.h"
#include "nsvq/experiments/outcome/seed_statistics.h"
#include "nsvq/experiments/plan/pilots.h"
#include "nsvq/experiments/run/evaluated.h"
#include "nsvq/metrics/metric.h"
#include "nsvq/runs/layout/layout.h"

namespace nsvq {

namespace {

double taken(const std::string& take, const std::vector<double>& values) {
  if (take == "first") return values.front();
  if (take == "mean") return mean_of(values);
  if (take == "median") return median_of(values);
  if (take == "min") return *std::min_element(values.begin(), values.end());
  if (take == "max") return *std::max_element(values.begin(), values.end());
  return values.back();
}

}  // namespace

RunFigures::RunFigures(const Plan& plan, size_t number) {
  const auto& run = plan.runs.at(number);
  has_steps_ = !run.recipe.empty();
  evaluated_ = evaluated(run);
  std::error_code ignored;
  const auto log = run.run() / kMetricsFile;
  if (!std::filesystem::exists(log, ignored)) return;
  log_ = read_run_log(log);
  if (!run.pilots.runs.empty()) chosen_ = number_of(chosen_value(plan, run));
}

std::vector<std::pair<double, double>> RunFigures::curve(const std::string& of,
                                                         const std::string& phase) const {
  if (of == kChosenByPilots && chosen_) return {{0, *chosen_}};
  const auto dot = of.find('.');
  const auto kind = of.substr(0, dot), key = of.substr(dot + 1);
  std::vector<std::pair<double, double>> points;
  if (!has_steps_) {
    const auto found = evaluated_.find(key);
    if (found != evaluated_.end()) points.emplace_back(0, found->second);
    return points;
  }
  for (const auto* record : log_.of_kind_for(kind, key)) {
    if (!phase.empty() && record->phase != phase) continue;
    const auto found = record->values.find(key);
    if (found != record->values.end()) points.emplace_back(record->step, found->second);
  }
  return points;
}

std::optional<double> RunFigures::figure(const Experiment& experiment,
                                         const std::string& column) const {
  if (const auto* figure = experiment.find_figure(column)) {
    std::vector<double> values;
    // A file's figures are of its end.
    if (!has_steps_ && figure->take == "first") return std::nullopt;
    for (const auto& [step, value] : curve(figure->of, figure->phase)) {
      if (std::isfinite(value)) values.push_back(value);
    }
    return values.empty() ? std::nullopt : std::optional(taken(figure->take, values));
  }
  const auto* kind = find_metric_kind(column);
  const auto found = evaluated_.find(kind ? kind->name : column);
  if (found == evaluated_.end() || !std::isfinite(found->second)) return std::nullopt;
  return found->second;
}

std::optional<double> RunFigures::freeze() const {
  bool stage1 = false;
  for (const auto& phase : log_.phases()) {
    if (phase.phase != "stage1" && stage1) return phase.step;
    stage1 |= phase.phase == "stage1";
  }
  return std::nullopt;
}

}  // namespace nsvq
