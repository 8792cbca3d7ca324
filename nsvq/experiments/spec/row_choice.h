#pragma once

#include <string>
#include <vector>

#include "nsvq/experiments/plan/plan.h"

namespace nsvq {

/// The runs of the rows of these names, without names of all rows, and what they need are wanted,
/// and no others. Throws UserError for a row that is not there, saying why.
void choose_rows(const std::vector<std::string>& names, Plan& plan);

}  // namespace nsvq
