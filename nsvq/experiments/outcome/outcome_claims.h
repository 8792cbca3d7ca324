#pragma once

#include "nsvq/experiments/outcome/outcome.h"

namespace nsvq {

/// Compares the order of an experiment's rows with the paper's, column by column.
void add_agreements(ExperimentOutcome& outcome);

/// Tests the experiment's claims on the figures of its rows.
void add_claims(ExperimentOutcome& outcome);

}  // namespace nsvq
