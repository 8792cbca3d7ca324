#pragma once

#include <string>
#include <vector>

#include "nsvq/experiments/plan.h"

namespace nsvq {

/// Between a row's title and the reason, in the notes of a planned experiment.
inline constexpr auto kLeftOut = " is left out: ";

/// The runs of the rows of these names, without names of all rows, and what they need are wanted,
/// and no others. Throws UserError for a row that is not there, saying why.
void choose_rows(const std::vector<std::string>& names, Plan& plan);

}  // namespace nsvq
