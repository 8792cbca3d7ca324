#pragma once

#include <string>
#include <vector>

#include "nsvq/experiments/plan/plan.h"

namespace nsvq {

/// The experiments live at least as long as the plan. Throws UserError for what cannot be run.
Plan make_plan(const std::vector<Experiment>& experiments, const PlanOptions& options);

/// Marks as wanted the runs of the rows of these names, without names of all rows, and what they
/// need; no others. Throws UserError for an unknown row, saying why it is missing.
void choose_rows(const std::vector<std::string>& names, Plan& plan);

/// What is left out of the experiments, and why, a line each.
std::vector<std::string> notes_of(const Plan& plan);

/// Throws UserError for missing images that unfinished runs need, before anything is run.
void require_images(const Plan& plan);

}  // namespace nsvq
