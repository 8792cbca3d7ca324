#pragma once

#include <string>

#include "nsvq/dist/group.h"
#include "nsvq/nn/named_tensors.h"

namespace nsvq {

/// Name of the first tensor whose bits differ between ranks, empty if none does. All ranks bring
/// tensors of the same names and shapes.
std::string first_difference(Group& group, const TensorMap& tensors);

/// Throws RunError naming it; `when` says at which point of the run.
void require_equal_ranks(Group& group, const TensorMap& tensors, const std::string& when);

}  // namespace nsvq
