#pragma once

#include <vector>

#include "nsvq/core/config.h"
#include "nsvq/core/option.h"

namespace nsvq {

/// The table of all settings, bound to the fields of `config`; keys of a section stand together.
std::vector<Option> options(Config& config);

/// Throws UserError when settings that are valid one by one contradict each other.
void check(const Config& config);

}  // namespace nsvq
