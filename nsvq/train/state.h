#pragma once

#include <torch/types.h>

#include <map>
#include <string>

namespace nsvq {

/// Tensors by name, as checkpoints keep them. Parts of a run's state share one file by prefixes.
using TensorMap = std::map<std::string, torch::Tensor>;

void add_prefixed(TensorMap& all, const std::string& prefix, const TensorMap& part);
/// The tensors whose names begin with `prefix`, without it.
TensorMap with_prefix(const TensorMap& all, const std::string& prefix);

/// Copies tensors into those of the same name. Throws UserError, calling their origin `from`, when
/// one is missing, left over, or of another shape.
void copy_tensors(TensorMap targets, const TensorMap& tensors, const std::string& from);

}  // namespace nsvq
