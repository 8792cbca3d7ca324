#pragma once

#include <string>
#include <vector>

#include "nsvq/experiments/plan/plan.h"
#include "nsvq/experiments/run/scheduler.h"
#include "nsvq/experiments/spec/comparison.h"
#include "nsvq/metrics/metric.h"
#include "nsvq/report/chart.h"

namespace nsvq {

/// A column of a table and how it is shown.
struct OutcomeColumn {
  std::string name;
  MetricDisplay display;
};

/// A figure of a row over its seeds, or the reason why there is none.
struct Cell {
  SeedFigures figures;
  size_t seeds = 0;  ///< seeds of the row
  std::optional<double> paper;

  double mean() const;
  double spread() const;
};

struct OutcomeRow {
  std::string name, title;
  std::vector<Cell> cells;  ///< one a column
  std::string problem;      ///< why a run failed; empty if none did
};

/// How far our order of the rows agrees with the paper's.
struct Agreement {
  std::string column;
  double correlation = 0;  ///< Spearman's
  size_t rows = 0;
};

struct ClaimOutcome {
  std::string text, why;
  ClaimVerdict verdict = ClaimVerdict::untested;
};

struct PictureOutcome {
  std::string title;
  std::filesystem::path file;
  std::vector<std::string> columns;  ///< from the left
};

/// What came out of an experiment.
struct ExperimentOutcome {
  const PlannedExperiment* planned = nullptr;
  std::string scale, setting;      ///< the scale's name, and what it is in words
  std::vector<std::string> notes;  ///< what else is left out or failed, and why
  std::vector<OutcomeColumn> columns;
  std::vector<OutcomeRow> rows;
  std::vector<Agreement> agreements;
  std::vector<ClaimOutcome> claims;
  std::vector<Chart> charts;
  std::vector<PictureOutcome> pictures;
};

/// Reads figures from the runs' folders. `results` are those of the plan's runs.
ExperimentOutcome gather_outcome(const Plan& plan, const PlannedExperiment& planned,
                                 const std::vector<JobResult>& results);

// Parts of gather_outcome.

/// Compares the order of an experiment's rows with the paper's, column by column.
void add_agreements(ExperimentOutcome& outcome);
/// Tests the experiment's claims on the figures of its rows.
void add_claims(ExperimentOutcome& outcome);
/// The experiment's charts: curves of the first seed over steps, with the freeze marked, and
/// columns over the values of a setting. A note names those without a line.
void add_charts(const Plan& plan, ExperimentOutcome& outcome);

/// "holds here", "does not hold here", "not tested at this scale".
std::string verdict_in_words(ClaimVerdict verdict);
/// "23.41 ± 0.12", with the column's unit; a reason in words where there is no figure.
std::string cell_text(const Cell& cell, const MetricDisplay& display);

}  // namespace nsvq
