#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "nsvq/experiments/outcome/outcome.h"
#include "nsvq/experiments/spec/comparison.h"

namespace nsvq {

namespace {

SeedFigures figure_of(const ExperimentOutcome& outcome, const std::string& run,
                      const std::string& column) {
  const auto& columns = outcome.planned->columns;
  const auto at = std::find(columns.begin(), columns.end(), column);
  if (at == columns.end()) return {{}, "not measured at this scale"};
  for (const auto& row : outcome.rows) {
    if (row.name == run) return row.cells[static_cast<size_t>(at - columns.begin())].figures;
  }
  return {{}, "not run at this scale"};
}

RowNames names_of_rows(const PlannedExperiment& planned) {
  RowNames names;
  for (const auto& row : planned.rows) {
    names.all.push_back(row.name);
    names.titles[row.name] = row.title;
    if (!row.spec->extra) names.with_star.push_back(row.name);
  }
  return names;
}

ClaimOutcome tested(const ClaimSpec& claim, const RowNames& names,
                    const ExperimentOutcome& outcome) {
  const auto& scales = claim.scales;
  const bool named = std::find(scales.begin(), scales.end(), outcome.scale) != scales.end();
  if (!named && !compares_with_paper(outcome.scale)) {
    return {claim.text, "runs of seconds, to see that all of it works", ClaimVerdict::untested};
  }
  if (!named && !scales.empty()) {
    return {claim.text, fmt::format("tested at scale {}", fmt::join(scales, ", ")),
            ClaimVerdict::untested};
  }
  ClaimOutcome result{claim.text, "", ClaimVerdict::holds};
  for (const auto& text : claim.holds) {
    const auto comparison = parse_comparison(text, outcome.planned->experiment->file.string());
    const auto one = compare_figures(comparison, names, [&](const auto& run, const auto& column) {
      return figure_of(outcome, run, column);
    });
    if (!result.why.empty()) result.why += "; ";
    result.why += fmt::format("{}: {}", text, one.why);
    if (one.verdict == ClaimVerdict::holds) continue;
    if (result.verdict != ClaimVerdict::fails) result.verdict = one.verdict;
  }
  return result;
}

}  // namespace

void add_agreements(ExperimentOutcome& outcome) {
  for (size_t i = 0; i < outcome.columns.size(); ++i) {
    std::vector<double> ours, theirs;
    for (const auto& row : outcome.rows) {
      const auto& cell = row.cells[i];
      if (!cell.paper || !std::isfinite(cell.mean())) continue;
      ours.push_back(cell.mean());
      theirs.push_back(*cell.paper);
    }
    if (const auto correlation = rank_correlation(ours, theirs)) {
      outcome.agreements.push_back({outcome.columns[i].display.title, *correlation, ours.size()});
    }
  }
}

void add_claims(ExperimentOutcome& outcome) {
  const auto names = names_of_rows(*outcome.planned);
  for (const auto& claim : outcome.planned->experiment->claims) {
    outcome.claims.push_back(tested(claim, names, outcome));
  }
}

}  // namespace nsvq
