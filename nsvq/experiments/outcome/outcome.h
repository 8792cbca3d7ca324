#pragma once

#include <string>
#include <vector>

#include "nsvq/experiments/outcome/comparison.h"
#include "nsvq/experiments/plan/plan.h"
#include "nsvq/experiments/run/job.h"
#include "nsvq/metrics/metric.h"
#include "nsvq/report/chart.h"

namespace nsvq {

/// A column of a table, as it is shown.
struct OutcomeColumn {
  std::string name;
  MetricDisplay display;
};

/// A figure of a row over its seeds, or the reason why there is none.
struct Cell {
  SeedFigures figures;
  size_t seeds = 0;  ///< of the row
  std::optional<double> paper;

  double mean() const;
  double spread() const;
};

struct OutcomeRow {
  std::string name, title;
  std::vector<Cell> cells;  ///< one a column
  std::string problem;      ///< of a run that failed; empty if none did
};

/// How far our order of the rows agrees with the paper's.
struct Agreement {
  std::string column;
  double correlation = 0;  ///< Spearman's
  size_t rows = 0;
};

struct ClaimOutcome {
  std::string text, why;
  Verdict verdict = Verdict::untested;
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
  std::vector<std::string> notes;  ///< what is left out or failed besides rows, and why
  std::vector<OutcomeColumn> columns;
  std::vector<OutcomeRow> rows;
  std::vector<Agreement> agreements;
  std::vector<ClaimOutcome> claims;
  std::vector<Chart> charts;
  std::vector<PictureOutcome> pictures;
};

/// Gathers figures from the runs' folders. `results` are those of the plan's runs.
ExperimentOutcome gather(const Plan& plan, const PlannedExperiment& planned,
                         const std::vector<JobResult>& results);

/// "holds here", "does not hold here", "not tested at this scale".
std::string verdict_in_words(Verdict verdict);
/// "23.41 ± 0.12", with the column's unit; a reason in words where there is no figure.
std::string cell_text(const Cell& cell, const MetricDisplay& display);

}  // namespace nsvq
