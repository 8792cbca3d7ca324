#include "nsvq/experiments/outcome/outcome.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "nsvq/core/error.h"
#include "nsvq/experiments/plan/run_view.h"
#include "nsvq/experiments/spec/comparison.h"

namespace nsvq {

namespace {

OutcomeColumn column_of(const Experiment& experiment, const std::string& name) {
  if (const auto* figure = experiment.find_figure(name)) {
    MetricDisplay display;
    display.title = figure->title;
    display.unit = figure->unit;
    display.scale = figure->scale;
    display.decimals = static_cast<int>(figure->decimals);
    display.better = figure->better == "higher" ? Better::higher : Better::lower;
    return {name, display};
  }
  if (const auto* kind = find_metric_kind(name)) return {name, kind->display};
  MetricDisplay loss;
  loss.title = "Validation loss";
  loss.better = Better::lower;
  return {name, loss};
}

/// "Scale cpu: 640 steps of drawn images; trained on A; evaluated on B; seeds 0, 1".
std::string setting_of(const Plan& plan, const PlannedExperiment& planned) {
  const auto& about = planned.experiment->scales.at(plan.scale).about;
  auto text = fmt::format("Scale {}{}", plan.scale, about.empty() ? "" : ": " + about);
  std::vector<std::string> train, val;
  std::set<int64_t> seeds;
  const auto add = [](std::vector<std::string>& to, const std::string& source) {
    if (!source.empty() && std::find(to.begin(), to.end(), source) == to.end())
      to.push_back(source);
  };
  for (const auto& row : planned.rows) {
    for (const size_t run : row.runs) {
      add(train, plan.runs[run].train.text());
      add(val, plan.runs[run].val.text());
      seeds.insert(plan.runs[run].seed);
    }
  }
  if (!train.empty()) text += fmt::format("; trained on {}", fmt::join(train, " or "));
  if (!val.empty()) text += fmt::format("; evaluated on {}", fmt::join(val, " or "));
  return text +
         fmt::format("; {} {}", seeds.size() == 1 ? "seed" : "seeds", fmt::join(seeds, ", "));
}

class Gatherer {
 public:
  Gatherer(const Plan& plan, const PlannedExperiment& planned,
           const std::vector<JobResult>& results)
      : plan_(plan), planned_(planned), results_(results) {}

  ExperimentOutcome gather() {
    const auto& experiment = *planned_.experiment;
    outcome_.planned = &planned_;
    outcome_.scale = plan_.scale;
    outcome_.setting = setting_of(plan_, planned_);
    outcome_.notes = planned_.notes;
    add_equal_rows();
    add_failed_pilots();
    for (const auto& column : planned_.columns) {
      outcome_.columns.push_back(column_of(experiment, column));
    }
    for (const auto& row : planned_.rows) outcome_.rows.push_back(row_of(row));
    for (const auto& figure : experiment.figures) make_relative(figure);
    add_agreements(outcome_);
    add_claims(outcome_);
    add_charts(plan_, outcome_);
    return std::move(outcome_);
  }

 private:
  OutcomeRow row_of(const PlannedRow& planned) {
    OutcomeRow row{planned.name, planned.title, {}, ""};
    for (const size_t run : planned.runs) {
      if (row.problem.empty()) row.problem = results_[run].problem;
    }
    for (const auto& column : planned_.columns) {
      Cell cell;
      const auto& paper = planned.spec->paper;
      const bool compared = compares_with_paper(plan_.scale);
      const bool plain =
          planned.value.empty() || (planned.spec->vary == kGpus && planned.value == "1");
      if (const auto found = paper.find(column); found != paper.end() && plain && compared) {
        cell.paper = found->second;
      }
      cell.seeds = planned.runs.size();
      for (const size_t run : planned.runs) add_figure(run, column, cell.figures);
      row.cells.push_back(std::move(cell));
    }
    return row;
  }

  /// Notes rows with equal settings at this scale: they share a run.
  void add_equal_rows() {
    for (size_t i = 0; i < planned_.rows.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        const auto &row = planned_.rows[i], &earlier = planned_.rows[j];
        if (row.runs.empty() || row.runs != earlier.runs) continue;
        outcome_.notes.push_back(fmt::format(
            "{} is the same run as {}: their settings differ in nothing that counts at this scale",
            row.title, earlier.title));
        break;
      }
    }
  }

  void add_failed_pilots() {
    std::set<size_t> noted;
    for (const auto& row : planned_.rows) {
      for (const size_t run : row.runs) {
        for (const size_t pilot : plan_.runs[run].pilots.runs) {
          if (results_[pilot].problem.empty() || !noted.insert(pilot).second) continue;
          outcome_.notes.push_back(fmt::format("a pilot of {} failed, and the others decide: {}",
                                               row.title, results_[pilot].problem));
        }
      }
    }
  }

  void add_figure(size_t run, const std::string& column, SeedFigures& figures) {
    if (!results_[run].finished) {
      const auto& problem = results_[run].problem;
      figures.missing = problem.empty() ? "not run yet" : "failed: " + problem;
      return;
    }
    const auto value = view_of(run).figure(*planned_.experiment, column);
    if (value) {
      figures.values.push_back(*value);
    } else if (figures.missing.empty()) {
      figures.missing = "the run has no such figure";
    }
  }

  const RunView& view_of(size_t run) { return views_.try_emplace(run, plan_, run).first->second; }

  /// The figure to divide by: of the run's row, or of its row with this value.
  double reference_for(const std::string& run, const std::string& value, size_t column) const {
    const auto varied = run + "@" + value;
    for (const auto& row : outcome_.rows) {
      if (row.name == run || row.name == varied) return row.cells[column].mean();
    }
    return NAN;
  }

  /// Divides a column by the figures that it is relative to.
  void make_relative(const FigureSpec& figure) {
    const auto at = std::find(planned_.columns.begin(), planned_.columns.end(), figure.name);
    if (figure.relative_to.empty() || at == planned_.columns.end()) return;
    const auto column = static_cast<size_t>(at - planned_.columns.begin());
    std::vector<double> references;
    for (const auto& row : planned_.rows) {
      references.push_back(reference_for(figure.relative_to, row.value, column));
    }
    for (size_t i = 0; i < references.size(); ++i) {
      const double reference = references[i];
      auto& cell = outcome_.rows[i].cells[column].figures;
      for (auto& value : cell.values) value /= reference;
      if (!std::isfinite(reference) || reference == 0) {
        cell = {{}, fmt::format("{} has no figure to compare with", figure.relative_to)};
      }
    }
  }

  const Plan& plan_;
  const PlannedExperiment& planned_;
  const std::vector<JobResult>& results_;
  std::map<size_t, RunView> views_;
  ExperimentOutcome outcome_;
};

}  // namespace

double Cell::mean() const { return mean_of(figures.values); }
double Cell::spread() const { return deviation_of(figures.values); }

ExperimentOutcome gather_outcome(const Plan& plan, const PlannedExperiment& planned,
                                 const std::vector<JobResult>& results) {
  return Gatherer(plan, planned, results).gather();
}

std::string verdict_in_words(ClaimVerdict verdict) {
  if (verdict == ClaimVerdict::holds) return "holds here";
  return verdict == ClaimVerdict::fails ? "does not hold here" : "not tested at this scale";
}

std::string cell_text(const Cell& cell, const MetricDisplay& display) {
  if (cell.figures.values.empty()) return cell.figures.missing;
  auto text = format_figure(cell.mean(), display);
  if (cell.figures.values.size() > 1) text += " ± " + format_figure(cell.spread(), display);
  if (!display.unit.empty()) text += " " + display.unit;
  const bool some_failed = !cell.figures.missing.empty();
  if (some_failed)
    text += fmt::format(" ({} of {} seeds; {})", cell.figures.values.size(), cell.seeds,
                        cell.figures.missing);
  return text;
}

}  // namespace nsvq
