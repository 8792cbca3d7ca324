#include "nsvq/experiments/outcome_charts.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "nsvq/experiments/run_figures.h"

namespace nsvq {

namespace {

bool is_in(const ChartSpec& spec, const std::string& run) {
  return spec.runs.empty() || std::find(spec.runs.begin(), spec.runs.end(), run) != spec.runs.end();
}

Chart empty_chart(const ChartSpec& spec) {
  Chart chart;
  chart.title = spec.title;
  chart.x_label = spec.x_label;
  chart.y_label = spec.y_label;
  chart.log_x = spec.log_x;
  chart.log_y = spec.log_y;
  return chart;
}

void add_curves(const ChartSpec& spec, const Plan& plan, const PlannedExperiment& planned,
                Chart& chart) {
  if (chart.x_label.empty()) chart.x_label = "step";
  for (const auto& row : planned.rows) {
    if (!is_in(spec, row.spec->name) || row.runs.empty()) continue;
    const RunFigures figures(plan.runs[row.runs.front()]);
    Series series{row.title, {}, {}};
    for (const auto& [step, value] : figures.curve(spec.y)) {
      series.x.push_back(step);
      series.y.push_back(value);
    }
    if (series.x.empty()) continue;  // a loss that this scale does not have
    if (const auto step = figures.freeze()) chart.marks.push_back({*step, "freeze"});
    chart.series.push_back(std::move(series));
  }
}

/// A line for each run that varies a setting.
void add_sweep(const ChartSpec& spec, const ExperimentOutcome& outcome, Chart& chart) {
  const auto& columns = outcome.planned->columns;
  const auto at = std::find(columns.begin(), columns.end(), spec.y);
  if (at == columns.end()) return;
  const auto column = static_cast<size_t>(at - columns.begin());
  const auto& display = outcome.columns[column].display;
  if (chart.y_label.empty()) {
    chart.y_label = display.title + (display.unit.empty() ? "" : ", " + display.unit);
  }
  for (size_t i = 0; i < outcome.rows.size(); ++i) {
    const auto& row = outcome.planned->rows[i];
    if (row.value.empty() || !is_in(spec, row.spec->name)) continue;
    if (chart.series.empty() || chart.series.back().name != row.group) {
      chart.series.push_back({row.group, {}, {}});
    }
    chart.series.back().x.push_back(std::strtod(row.value.c_str(), nullptr));
    chart.series.back().y.push_back(outcome.rows[i].cells[column].mean() * display.scale);
    if (chart.x_label.empty()) chart.x_label = row.spec->vary;
  }
}

}  // namespace

std::vector<Chart> make_charts(const Plan& plan, const ExperimentOutcome& outcome) {
  std::vector<Chart> charts;
  for (const auto& spec : outcome.planned->experiment->charts) {
    auto chart = empty_chart(spec);
    spec.kind == "sweep" ? add_sweep(spec, outcome, chart)
                         : add_curves(spec, plan, *outcome.planned, chart);
    if (!chart.series.empty()) charts.push_back(std::move(chart));
  }
  return charts;
}

}  // namespace nsvq
