#pragma once

#include <string>

#include "nsvq/experiments/outcome/outcome.h"
#include "nsvq/io/formats/json.h"

namespace nsvq {

/// An experiment's outcome as Markdown: table with the paper's figures, rank correlations, claims.
std::string outcome_markdown(const ExperimentOutcome& outcome);

/// The same as numbers, for programs.
Json outcome_json(const ExperimentOutcome& outcome);

/// The same for the page (nsvq/report/page/experiments.js), with charts and pictures inside.
Json outcome_page(const ExperimentOutcome& outcome);

}  // namespace nsvq
