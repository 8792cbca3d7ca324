#include "nsvq/experiments/plan/run_view.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "nsvq/core/error.h"
#include "nsvq/experiments/spec/comparison.h"
#include "nsvq/io/formats/json.h"
#include "nsvq/metrics/metric.h"
#include "nsvq/runs/layout/layout.h"

namespace nsvq {

namespace {

bool is_there(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

/// One of the values, by the rule of a FigureSpec.
double reduced(const std::string& rule, const std::vector<double>& values) {
  if (rule == "first") return values.front();
  if (rule == "mean") return mean_of(values);
  if (rule == "median") return median_of(values);
  if (rule == "min") return *std::min_element(values.begin(), values.end());
  if (rule == "max") return *std::max_element(values.begin(), values.end());
  return values.back();
}

}  // namespace

bool RunView::begun() const { return is_there(planned().run()); }

bool RunView::made() const { return is_there(planned().file()) && is_there(planned().figures()); }

const RunSummary& RunView::summary() const {
  if (!summary_) summary_ = describe_run(planned().run());
  return *summary_;
}

const RunLog& RunView::log() const {
  if (log_) return *log_;
  const auto file = planned().run() / kMetricsFile;
  log_ = is_there(file) ? read_run_log(file) : RunLog();
  return *log_;
}

const std::map<std::string, double>& RunView::evaluation() const {
  if (evaluation_) return *evaluation_;
  std::map<std::string, double> figures;
  if (const auto records = log().of_kind("eval"); !records.empty()) {
    for (const auto& [name, value] : records.back()->values) figures[std::string(name)] = value;
  }
  if (is_there(planned().figures())) {
    const auto json = read_json(planned().figures());
    for (const auto& [name, value] : json.items()) {
      if (value.is_number()) figures[name] = value.get<double>();
      if (value.is_null()) figures[name] = NAN;
    }
  }
  evaluation_ = std::move(figures);
  return *evaluation_;
}

std::optional<double> RunView::seconds_a_step() const {
  std::vector<double> rates;  // of images, or of what else a task has as samples
  for (const auto* record : log().of_kind("step")) {
    for (const auto& [name, rate] : record->values) {
      if (name.ends_with("_per_second") && rate > 0) rates.push_back(rate);
    }
  }
  if (rates.empty()) return std::nullopt;
  return static_cast<double>(planned().batch) / median_of(rates);
}

std::optional<double> RunView::freeze() const {
  bool stage1 = false;
  for (const auto& phase : log().phases()) {
    if (phase.phase != "stage1" && stage1) return phase.step;
    stage1 |= phase.phase == "stage1";
  }
  return std::nullopt;
}

std::vector<std::pair<double, double>> RunView::curve(const std::string& of,
                                                      const std::string& phase) const {
  if (of == kChosenByPilots && !planned().pilots.runs.empty() && begun()) {
    if (const auto chosen = number_of(chosen_value())) return {{0, *chosen}};
  }
  const auto dot = of.find('.');
  const auto kind = of.substr(0, dot), key = of.substr(dot + 1);
  std::vector<std::pair<double, double>> points;
  if (!trains()) {
    const auto found = evaluation().find(key);
    if (found != evaluation().end()) points.emplace_back(0, found->second);
    return points;
  }
  for (const auto* record : log().of_kind_for(kind, key)) {
    if (!phase.empty() && record->phase != phase) continue;
    const auto found = record->values.find(key);
    if (found != record->values.end()) points.emplace_back(record->step, found->second);
  }
  return points;
}

std::optional<double> RunView::figure(const Experiment& experiment,
                                      const std::string& column) const {
  if (const auto* figure = experiment.find_figure(column)) {
    if (!trains() && figure->take == "first") return std::nullopt;  // a file has its end alone
    std::vector<double> values;
    for (const auto& [step, value] : curve(figure->of, figure->phase)) {
      if (std::isfinite(value)) values.push_back(value);
    }
    return values.empty() ? std::nullopt : std::optional(reduced(figure->take, values));
  }
  const auto* kind = find_metric_kind(column);
  const auto found = evaluation().find(kind ? kind->name : column);
  if (found == evaluation().end() || !std::isfinite(found->second)) return std::nullopt;
  return found->second;
}

const std::string& RunView::recipe() const {
  const auto& pilots = planned().pilots;
  return pilots.runs.empty() ? planned().recipe : pilots.recipes.at(best_pilot());
}

size_t RunView::best_pilot() const {
  if (best_pilot_) return *best_pilot_;
  const auto& pilots = planned().pilots;
  const auto* metric = find_metric_kind(pilots.metric);
  const double sign = metric->display.better == Better::higher ? 1 : -1;
  double best_value = 0;
  for (size_t i = 0; i < pilots.runs.size(); ++i) {
    const RunView pilot(plan_, pilots.runs[i]);
    if (pilot.begun() && !pilot.finished()) continue;  // ended before its budget
    const auto found = pilot.evaluation().find(metric->name);
    if (found == pilot.evaluation().end() || !std::isfinite(found->second)) continue;
    const double value = sign * found->second;
    if (best_pilot_ && value <= best_value) continue;
    best_pilot_ = i;
    best_value = value;
  }
  if (!best_pilot_) throw RunError("none of its pilots is finished with a finite {}", metric->name);
  return *best_pilot_;
}

}  // namespace nsvq
