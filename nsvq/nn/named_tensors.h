#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <map>
#include <string>

#include "nsvq/core/tensor_map.h"

namespace nsvq {

/// Parameters and buffers of a module by the names that files use, such as
/// "encoder.conv_in.weight".
TensorMap named_tensors(const torch::nn::Module& module);

/// Copies tensors into a module's parameters and buffers. Throws UserError if one is missing,
/// unexpected, of another shape, or not of numbers with a fraction where the module has them;
/// `from` names the tensors' origin in the message.
void load_tensors(torch::nn::Module& module, const TensorMap& tensors, const std::string& from);

/// Name of the first tensor that holds a value that is not finite; empty if none does.
std::string first_nonfinite(const TensorMap& tensors);

/// Throws UserError naming the first tensor that holds NaN or infinity, and its origin `from`.
void require_finite(const TensorMap& tensors, const std::string& from);

/// Copies tensors into the `targets` of equal names. Throws UserError like load_tensors.
void copy_tensors(TensorMap targets, const TensorMap& tensors, const std::string& from);

/// Adds `part` to `all` under names that begin with `prefix`, for parts of a training state that
/// share one file.
void add_prefixed(TensorMap& all, const std::string& prefix, const TensorMap& part);
/// The tensors whose names begin with `prefix`, with the prefix removed.
TensorMap with_prefix(const TensorMap& all, const std::string& prefix);

}  // namespace nsvq
