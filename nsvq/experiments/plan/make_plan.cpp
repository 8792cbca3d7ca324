#include "nsvq/experiments/plan/make_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/core/lookup.h"
#include "nsvq/core/text.h"
#include "nsvq/data/sources/source.h"
#include "nsvq/experiments/plan/next_command.h"
#include "nsvq/experiments/plan/run_planner.h"
#include "nsvq/experiments/spec/comparison.h"
#include "nsvq/metrics/metric.h"
#include "nsvq/nn/weights.h"

namespace nsvq {

namespace {

/// Which of the weights are not in the store, and how to get them; empty if all are.
std::string missing_weights(const std::vector<std::string>& names) {
  for (const auto& name : names) {
    try {
      weights_origin(name);
    } catch (const UserError& error) {
      return error.what();
    }
  }
  return "";
}

/// missing_weights of the networks whose features a run needs, itself or through its needs; `known`
/// holds the runs that were checked.
std::string missing_networks(const Experiment& experiment, const RunSettings& settings,
                             const RunSpec& spec, std::set<const RunSpec*>& known) {
  if (!known.insert(&spec).second) return "";
  if (spec.kind == "features") return missing_weights({settings.network_of(spec).weights});
  for (const auto& [setting, name] : spec.needs) {
    auto missing = missing_networks(experiment, settings, *experiment.find_run(name), known);
    if (!missing.empty()) return missing;
  }
  return "";
}

const ScaleSpec& scale_of(const Experiment& experiment, const std::string& name) {
  const auto found = experiment.scales.find(name);
  if (found != experiment.scales.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [scale, spec] : experiment.scales) names.push_back(scale);
  throw UserError("{}: has no scale {} (there are: {})", experiment.file.string(), name,
                  fmt::join(names, ", "));
}

/// Keeps the columns whose weights are stored and leaves out the rest with a note. Returns the
/// metrics among them, which every row is measured by.
std::vector<std::string> choose_columns(const ScaleSpec& scale, PlannedExperiment& planned) {
  const auto& experiment = *planned.experiment;
  std::vector<std::string> metrics;
  for (const auto& column : scale.columns.empty() ? experiment.columns : scale.columns) {
    const auto* kind = experiment.find_figure(column) ? nullptr : find_metric_kind(column);
    const auto missing = kind ? missing_weights(kind->weights) : "";
    if (!missing.empty()) {
      planned.notes.push_back(fmt::format("{} is not measured: {}", column, missing));
      continue;
    }
    planned.columns.push_back(column);
    if (kind) metrics.push_back(kind->name);
  }
  return metrics;
}

std::string row_title(const RunSpec& spec, const std::string& value) {
  if (value.empty()) return spec.title;
  if (spec.vary != kGpus) return fmt::format("{}, {}", spec.title, value);
  return value == "1" ? spec.title : fmt::format("{}, {} GPUs", spec.title, value);
}

/// Drops GPU counts that this machine lacks, with one note for all runs. Without a GPU runs are on
/// the CPU, which counts as one.
void drop_gpu_counts(int gpus, std::vector<std::string>& values, PlannedExperiment& planned) {
  const auto is_more = [&](const auto& value) { return number_of(value) > std::max(gpus, 1); };
  if (std::erase_if(values, is_more) == 0) return;
  auto note = fmt::format("this machine has {}; rows of {} or more are left out",
                          count_of(gpus, "GPU"), std::max(gpus, 1) + 1);
  auto& notes = planned.notes;
  if (std::find(notes.begin(), notes.end(), note) == notes.end()) notes.push_back(std::move(note));
}

/// One row, or one per value of `vary`.
void add_rows(const RunSpec& spec, const PlanOptions& options, RunPlanner& planner,
              PlannedExperiment& planned) {
  if (!spec.only.empty() &&
      std::find(spec.only.begin(), spec.only.end(), options.scale) == spec.only.end()) {
    return;
  }
  const auto& here = planner.settings().at_scale(spec);
  const auto leave_out = [&](const std::string& why) {
    planned.notes.push_back(fmt::format("{} is left out: {}", spec.title, why));
    planned.left_out[spec.name] = planned.notes.back();
  };
  if (!here.skip.empty()) return leave_out(here.skip);
  std::vector<std::string> values = here.values.empty() ? spec.values : here.values;
  if (spec.vary.empty()) values = {""};
  if (spec.vary == kGpus) drop_gpu_counts(options.gpus, values, planned);
  for (const auto& value : values) {
    PlannedRow row{value.empty() ? spec.name : spec.name + "@" + value,
                   row_title(spec, value),
                   spec.title,
                   value,
                   &spec,
                   {}};
    for (const int64_t seed : planner.settings().seeds_of(spec)) {
      row.runs.push_back(planner.add(spec, value, seed));
    }
    std::set<const RunSpec*> known;
    const auto missing = missing_networks(*planned.experiment, planner.settings(), spec, known);
    if (!missing.empty() && !planner.are_done(row.runs)) return leave_out(missing);
    planned.rows.push_back(std::move(row));
  }
}

PlannedExperiment plan_experiment(const Experiment& experiment, const PlanOptions& options,
                                  Plan& plan) {
  const auto& scale = scale_of(experiment, options.scale);
  PlannedExperiment planned;
  planned.experiment = &experiment;
  const auto metrics = choose_columns(scale, planned);
  RunPlanner planner(experiment, options, metrics, plan);
  for (const auto& spec : experiment.runs) {
    if (spec.row) add_rows(spec, options, planner, planned);
  }
  if (planned.rows.empty()) {
    throw UserError("{}: no row is left at scale {} ({})", experiment.file.string(), options.scale,
                    fmt::join(planned.notes, "; "));
  }
  return planned;
}

}  // namespace

Plan make_plan(const std::vector<Experiment>& experiments, const PlanOptions& options) {
  Plan plan{options.scale, {}, {}};
  for (const auto& experiment : experiments) {
    plan.experiments.push_back(plan_experiment(experiment, options, plan));
  }
  choose_rows(options.rows, plan);
  for (auto& run : plan.runs) {
    for (auto* sources : {&run.train, &run.val}) sources->pipes_allowed |= options.allow_pipe;
  }
  return plan;
}

std::vector<std::string> notes_of(const Plan& plan) {
  std::vector<std::string> lines;
  for (const auto& planned : plan.experiments) {
    for (const auto& note : planned.notes) {
      lines.push_back(fmt::format("{}: {}", planned.experiment->name, note));
    }
  }
  return lines;
}

void require_images(const Plan& plan) {
  std::set<std::pair<std::string, bool>> known;
  for (size_t i = 0; i < plan.runs.size(); ++i) {
    const auto& run = plan.runs[i];
    if (!run.wanted || is_done(RunView(plan, i))) continue;
    for (const auto& sources : {run.train, run.val}) {
      const auto key = std::pair(sources.text(), sources.pipes_allowed);
      if (sources.items.empty() || !known.insert(key).second) continue;
      try {
        open_source(sources);
      } catch (const UserError& error) {
        throw UserError("{} (images of {}; --data and --val name yours)", error.what(), run.name);
      }
    }
  }
}

namespace {

/// Marks a run and what it needs.
void want(Plan& plan, size_t run) {
  if (plan.runs[run].wanted) return;
  plan.runs[run].wanted = true;
  for (const size_t need : plan.runs[run].needs) want(plan, need);
}

/// Throws if the experiment has such a row, but not at this scale or on this machine.
void refuse_left_out(const PlannedExperiment& planned, const std::string& name,
                     const std::string& scale) {
  const auto* spec = planned.experiment->find_run(name.substr(0, name.find('@')));
  if (!spec) return;
  if (!spec->row) throw UserError("--rows: {} is no row, but a run that rows need", spec->name);
  if (const auto found = planned.left_out.find(spec->name); found != planned.left_out.end()) {
    throw UserError("--rows: {}", found->second);
  }
  std::vector<std::string> here;
  for (const auto& row : planned.rows) {
    if (row.spec == spec) here.push_back(row.name);
  }
  if (here.empty() && spec->vary != kGpus) {
    throw UserError("--rows: {} is not part of scale {}", spec->name, scale);
  }
  if (spec->vary.empty()) return;
  const auto rows = fmt::format("{}", fmt::join(here, ", "));
  if (name == spec->name && !here.empty()) {
    throw UserError("--rows: {} is several rows: {}", name, rows);
  }
  const auto& values = spec->values;
  const bool known = std::any_of(values.begin(), values.end(), [&](const auto& value) {
    return name == spec->name + "@" + value;
  });
  if (spec->vary == kGpus && (known || here.empty())) {
    throw UserError("--rows: {} needs more GPUs than this machine has", name);
  }
  throw UserError("--rows: {} is not one of the rows {}", name, rows);
}

}  // namespace

void choose_rows(const std::vector<std::string>& names, Plan& plan) {
  for (auto& run : plan.runs) run.wanted = false;
  std::vector<std::string> known;
  for (const auto& planned : plan.experiments) {
    for (const auto& row : planned.rows) {
      known.push_back(row.name);
      const bool named = std::find(names.begin(), names.end(), row.name) != names.end();
      if (!named && !names.empty()) continue;
      for (const size_t run : row.runs) want(plan, run);
    }
  }
  for (const auto& name : names) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    for (const auto& planned : plan.experiments) refuse_left_out(planned, name, plan.scale);
    throw unknown_name("row", name, known);
  }
}

}  // namespace nsvq
