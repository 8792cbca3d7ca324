#pragma once

#include "nsvq/io/formats/pytorch/pickle.h"

namespace nsvq {

/// Throws UserError for a pickle that names a function which can only be meant to run something
/// where Python reads it: of the operating system, of Python's own loaders and evaluators. Nothing
/// is run here, whatever a pickle names.
void refuse_hostile(const Pickle& pickle);

}  // namespace nsvq
