#pragma once

#include <string>
#include <vector>

#include "nsvq/tokenizer/layouts/layout.h"

namespace nsvq {

/// The settings of a recipe that follow from a layout and the shapes of tensors, which have our
/// names: lines "model.width: 128". Throws UserError, calling the file `from`, where a tensor that
/// they follow from is missing or has no such shape.
std::vector<std::string> inferred_settings(const Layout& layout, const NamedShapes& ours,
                                           const std::string& from);

}  // namespace nsvq
