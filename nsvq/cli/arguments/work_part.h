#pragma once

#include <string>

#include "nsvq/tokens/token_folder.h"

namespace nsvq {

/// The part that `--part` names: "K/N", "auto" for the environment's, or "" where it is not given,
/// which is all of it, or torchrun's where that has started several processes. Throws UserError.
WorkPart choose_part(const std::string& option);

}  // namespace nsvq
