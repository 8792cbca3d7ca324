#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <optional>
#include <span>

#include "nsvq/experiments/outcome/outcome.h"
#include "nsvq/experiments/plan/run_view.h"

namespace nsvq {

namespace {

/// One of the charts of a ChartSpec.
struct ChartSlice {
  const ChartSpec& spec;
  std::string y;
  std::vector<const RunSpec*> runs;

  bool has(const PlannedRow& row) const {
    return std::find(runs.begin(), runs.end(), row.spec) != runs.end();
  }
};

std::vector<ChartSlice> slices_of(const ChartSpec& spec, const Experiment& experiment) {
  std::vector<const RunSpec*> runs;
  for (const auto& run : experiment.runs) {
    const bool named = std::find(spec.runs.begin(), spec.runs.end(), run.name) != spec.runs.end();
    if (spec.runs.empty() || named) runs.push_back(&run);
  }
  std::vector<ChartSlice> slices;
  for (const auto& y : spec.y) {
    if (!spec.apart) slices.push_back({spec, y, runs});
    for (const auto* run : runs) {
      if (spec.apart) slices.push_back({spec, y, {run}});
    }
  }
  return slices;
}

/// `y_title` is what is drawn, for a spec that has no title or is several charts.
Chart empty_chart(const ChartSlice& slice, const std::string& y_title) {
  const auto& spec = slice.spec;
  Chart chart;
  chart.title = spec.title.empty() || spec.y.size() > 1 ? y_title : spec.title;
  if (spec.apart) chart.title = slice.runs.front()->title + ": " + chart.title;
  chart.x_label = spec.x_label;
  chart.y_label = spec.y_label;
  chart.log_x = spec.log_x;
  chart.log_y = spec.log_y;
  return chart;
}

/// Draws single values of runs that only make a file as lines over the steps of trained runs.
void add_levels(std::vector<Series> levels, Chart& chart) {
  double last = 0;
  for (const auto& series : chart.series) last = std::max(last, series.x.back());
  for (auto& level : levels) {
    level.x.push_back(last);
    level.y.push_back(level.y.front());
    chart.series.push_back(std::move(level));
  }
}

/// Adds a run's curve and its freeze. Nothing for files that cannot be read: the row's cells say
/// why.
void add_curve(const RunView& view, const std::string& name, const std::string& y, Chart& chart,
               std::vector<Series>& levels) {
  Series series{name, {}, {}};
  std::optional<double> freeze;
  try {
    for (const auto& [step, value] : view.curve(y)) {
      series.x.push_back(step);
      series.y.push_back(value);
    }
    freeze = view.freeze();
  } catch (const std::exception&) {
    return;
  }
  if (series.x.empty()) return;  // a loss that this scale does not have
  if (freeze) chart.marks.push_back({*freeze, "freeze"});
  (view.trains() ? chart.series : levels).push_back(std::move(series));
}

Chart curves(const ChartSlice& slice, const Plan& plan, const PlannedExperiment& planned) {
  auto chart = empty_chart(slice, slice.y);
  if (chart.x_label.empty()) chart.x_label = "step";
  std::vector<Series> levels;
  for (const auto& row : planned.rows) {
    if (!slice.has(row) || row.runs.empty()) continue;
    const bool several = row.runs.size() > 1;
    const auto seed = fmt::format(", seed {}", plan.runs[row.runs.front()].seed);
    add_curve(RunView(plan, row.runs.front()), row.title + (several ? seed : ""), slice.y, chart,
              levels);
  }
  add_levels(std::move(levels), chart);
  return chart;
}

/// Charts of one figure, a run each, are to be compared: one y axis, side by side.
void share_axis(std::span<Chart> charts) {
  double least = INFINITY, greatest = -INFINITY;
  for (const auto& chart : charts) {
    for (const auto& series : chart.series) {
      for (const double y : series.y) {
        if (!std::isfinite(y) || (chart.log_y && y <= 0)) continue;
        least = std::min(least, y);
        greatest = std::max(greatest, y);
      }
    }
  }
  if (charts.size() < 2) return;
  for (auto& chart : charts) {
    chart.beside = charts.size();
    if (least < greatest) chart.y_range = {least, greatest};
  }
}

/// A line for each run that varies a setting. With one value each there is nothing to draw.
Chart sweep(const ChartSlice& slice, const ExperimentOutcome& outcome) {
  const auto& columns = outcome.planned->columns;
  const auto at = std::find(columns.begin(), columns.end(), slice.y);
  if (at == columns.end()) return {};
  const auto column = static_cast<size_t>(at - columns.begin());
  const auto& display = outcome.columns[column].display;
  auto chart = empty_chart(slice, display.title);
  if (chart.y_label.empty()) chart.y_label = display.unit;
  for (size_t i = 0; i < outcome.rows.size(); ++i) {
    const auto& row = outcome.planned->rows[i];
    if (row.value.empty() || !slice.has(row)) continue;
    if (chart.series.empty() || chart.series.back().name != row.group) {
      chart.series.push_back({row.group, {}, {}});
    }
    const double x = number_of(row.value).value_or(NAN);  // check_shown refuses the rest
    if (chart.log_x && !(x > 0)) continue;
    chart.series.back().x.push_back(x);
    chart.series.back().y.push_back(outcome.rows[i].cells[column].mean() * display.scale);
    if (slice.spec.x_label.empty() && chart.x_label.find(row.spec->vary) == std::string::npos) {
      chart.x_label += (chart.x_label.empty() ? "" : ", ") + row.spec->vary;
    }
  }
  const auto is_point = [](const Series& series) { return series.x.size() < 2; };
  if (std::all_of(chart.series.begin(), chart.series.end(), is_point)) chart.series.clear();
  return chart;
}

/// Whether a run of the row has failed or is not there yet.
bool has_gaps(const OutcomeRow& row) {
  return !row.problem.empty() ||
         std::any_of(row.cells.begin(), row.cells.end(),
                     [](const auto& cell) { return !cell.figures.missing.empty(); });
}

}  // namespace

void add_charts(const Plan& plan, ExperimentOutcome& outcome) {
  const auto& planned = *outcome.planned;
  const bool finished = std::none_of(outcome.rows.begin(), outcome.rows.end(), has_gaps);
  std::vector<Chart> charts;
  for (const auto& spec : planned.experiment->charts) {
    std::string y;
    size_t first = charts.size();  // of the charts of this y
    const auto share = [&] {
      if (spec.apart) share_axis(std::span(charts).subspan(first));
      first = charts.size();
    };
    for (const auto& slice : slices_of(spec, *planned.experiment)) {
      if (slice.y != y) share();
      y = slice.y;
      auto chart = spec.kind == "sweep" ? sweep(slice, outcome) : curves(slice, plan, planned);
      if (!chart.series.empty()) {
        charts.push_back(std::move(chart));
      } else if (spec.kind == "curves" && finished) {
        outcome.notes.push_back(fmt::format("no chart of {}: no run has logged it", slice.y));
      }
    }
    share();
  }
  outcome.charts = std::move(charts);
}

}  // namespace nsvq
