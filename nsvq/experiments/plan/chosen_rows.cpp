#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "nsvq/core/error.h"
#include "nsvq/core/lookup.h"
#include "nsvq/experiments/plan/make_plan.h"

namespace nsvq {

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
