#include <algorithm>

#include "nsvq/core/text.h"
#include "nsvq/experiments/spec/checks.h"
#include "nsvq/experiments/spec/comparison.h"

namespace nsvq {

namespace {

/// Whether there are runs whose figures are keys without a kind of line.
bool makes_files(const Experiment& experiment) {
  return std::any_of(experiment.runs.begin(), experiment.runs.end(),
                     [](const RunSpec& run) { return !is_trained(run.kind); });
}

void check_figures(const Experiment& experiment) {
  for (const auto& figure : experiment.figures) {
    const auto key = "figures." + figure.name;
    if (figure.of.find('.') == std::string::npos && !makes_files(experiment)) {
      throw wrong_key(experiment, key + ".of", "expected KIND.KEY of metrics.jsonl, got {}",
                      quote(figure.of));
    }
    if (figure.relative_to.empty()) continue;
    require_run(experiment, key + ".relative_to", figure.relative_to);
    const auto& other = *experiment.find_run(figure.relative_to);
    if (!other.row) {
      throw wrong_key(experiment, key + ".relative_to", "{} is no row of the table", other.name);
    }
    for (const auto& run : experiment.runs) {
      if (!run.row || other.vary.empty() || run.vary == other.vary) continue;
      throw wrong_key(experiment, key + ".relative_to",
                      "{} varies {} and {} does not, so there is no figure to divide by",
                      other.name, other.vary, run.name);
    }
  }
}

/// Values of a sweep must be numbers.
void check_axis(const Experiment& experiment, const RunSpec& run) {
  const auto check = [&](const std::string& key, const std::vector<std::string>& values) {
    for (const auto& value : values) {
      if (number_of(value)) continue;
      throw wrong_key(experiment, key, "{} is no number, so a chart of kind sweep cannot draw it",
                      quote(value));
    }
  };
  check("runs." + run.name + ".values", run.values);
  for (const auto& [name, scale] : run.scales) {
    check(fmt::format("runs.{}.{}.values", run.name, name), scale.values);
  }
}

void check_sweep(const Experiment& experiment, const ChartSpec& chart) {
  const auto key = "charts." + chart.name;
  bool any = false;
  for (const auto& run : experiment.runs) {
    const bool named =
        std::find(chart.runs.begin(), chart.runs.end(), run.name) != chart.runs.end();
    if (named && run.vary.empty()) {
      throw wrong_key(experiment, key + ".runs", "{} varies nothing, so it has no x", run.name);
    }
    if (run.vary.empty() || (!named && !chart.runs.empty())) continue;
    check_axis(experiment, run);
    any = true;
  }
  if (!any) throw wrong_key(experiment, key, "no run varies a setting, so there is no x");
}

void check_charts(const Experiment& experiment) {
  for (const auto& chart : experiment.charts) {
    const auto key = "charts." + chart.name;
    for (const auto& run : chart.runs) require_run(experiment, key + ".runs", run);
    if (chart.y.empty()) throw wrong_key(experiment, key, "y is missing");
    for (const auto& y : chart.y) {
      if (chart.kind == "sweep") {
        require_column(experiment, key + ".y", y);
      } else if (y.find('.') == std::string::npos && !makes_files(experiment)) {
        throw wrong_key(experiment, key + ".y", "expected KIND.KEY of metrics.jsonl, got {}",
                        quote(y));
      }
    }
    if (chart.kind == "sweep") check_sweep(experiment, chart);
  }
  for (const auto& picture : experiment.pictures) {
    check_name(experiment, "pictures", picture.name);  // part of a file's name
    const auto key = "pictures." + picture.name + ".runs";
    if (picture.runs.size() < 2) throw wrong_key(experiment, key, "name two runs or more");
    for (const auto& run : picture.runs) {
      require_run(experiment, key, run);
      const auto& found = *experiment.find_run(run);
      if (!found.row || !found.vary.empty() || !trains(found.kind, RunKind::tokenizer)) {
        throw wrong_key(experiment, key, "{} is not one row with a tokenizer", run);
      }
    }
  }
}

/// Whether a name in a claim can be that of a row, at some scale.
bool may_be_row(const Experiment& experiment, const Term& term) {
  for (const auto& run : experiment.runs) {
    if (!run.row) continue;
    std::vector<std::string> rows = {run.name};
    if (!run.vary.empty()) {
      rows.clear();
      for (const auto& value : run.values) rows.push_back(run.name + "@" + value);
      for (const auto& [name, scale] : run.scales) {
        for (const auto& value : scale.values) rows.push_back(run.name + "@" + value);
      }
    }
    if (std::any_of(rows.begin(), rows.end(), [&](const auto& row) { return term.matches(row); })) {
      return true;
    }
  }
  return false;
}

/// Whether the experiment or one of its scales has the column.
bool is_shown(const Experiment& experiment, const std::string& column) {
  const auto has = [&](const std::vector<std::string>& columns) {
    return std::find(columns.begin(), columns.end(), column) != columns.end();
  };
  return has(experiment.columns) ||
         std::any_of(experiment.scales.begin(), experiment.scales.end(),
                     [&](const auto& scale) { return has(scale.second.columns); });
}

void check_term(const Experiment& experiment, const std::string& key, const Term& term,
                bool on_the_right) {
  if (term.column.empty()) return;
  require_column(experiment, key, term.column);
  if (!is_shown(experiment, term.column)) {
    throw wrong_key(experiment, key, "{} is no column of the table; add it to columns",
                    term.column);
  }
  if (!may_be_row(experiment, term)) {
    if (term.run.find('@') == std::string::npos) require_run(experiment, key, term.run);
    throw wrong_key(experiment, key, "no row is called {}", quote(term.run));
  }
  const bool several = term.run.find('*') != std::string::npos && term.function.empty();
  if (several && !(on_the_right && term.run == "*")) {
    throw wrong_key(experiment, key, "{} is several rows: write min(), max() or mean() of {}:{}",
                    quote(term.run), term.run, term.column);
  }
}

void check_claims(const Experiment& experiment) {
  for (const auto& claim : experiment.claims) {
    if (claim.text.empty()) throw wrong_key(experiment, "claims." + claim.name, "text is missing");
    if (claim.holds.empty())
      throw wrong_key(experiment, "claims." + claim.name, "holds is missing");
    const auto key = "claims." + claim.name + ".holds";
    for (const auto& text : claim.holds) {
      const auto comparison = parse_comparison(text, experiment.file.string() + ": " + key);
      check_term(experiment, key, comparison.left, /*on_the_right=*/false);
      check_term(experiment, key, comparison.right, /*on_the_right=*/true);
    }
  }
}

}  // namespace

void check_shown(const Experiment& experiment) {
  check_figures(experiment);
  check_charts(experiment);
  check_claims(experiment);
}

}  // namespace nsvq
