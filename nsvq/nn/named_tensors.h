#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <map>
#include <string>

namespace nsvq {

/// Tensors by name, as model files and checkpoints keep them.
using TensorMap = std::map<std::string, torch::Tensor>;

/// Parameters and buffers of a module by the names that files use, such as
/// "encoder.conv_in.weight".
TensorMap named_tensors(const torch::nn::Module& module);

/// Copies tensors into a module's parameters and buffers. Throws UserError, calling the tensors'
/// origin `from`, when one is missing, left over, or of another shape.
void load_tensors(torch::nn::Module& module, const TensorMap& tensors, const std::string& from);

/// Copies tensors into those of the same name; errors as for load_tensors.
void copy_tensors(TensorMap targets, const TensorMap& tensors, const std::string& from);

/// Adds `part` under names that begin with `prefix`: parts of a run's state share one file.
void add_prefixed(TensorMap& all, const std::string& prefix, const TensorMap& part);
/// The tensors whose names begin with `prefix`, without it.
TensorMap with_prefix(const TensorMap& all, const std::string& prefix);

}  // namespace nsvq
