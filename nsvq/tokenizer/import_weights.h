#pragma once

#include <torch/types.h>

#include <map>
#include <string>
#include <vector>

#include "nsvq/core/tensor_map.h"

namespace nsvq {

/// Weights of another program, renamed to nsvq's names.
struct ImportedWeights {
  TensorMap tensors;
  /// Number of known tensors that a tokenizer does not need, by the first part of their name
  /// ("loss").
  std::map<std::string, int64_t> left_out;
};

/// Renames the weights of SimVQ and the first Open-MAGVIT2 to nsvq's names; names that no rule
/// matches are kept. Applies SimVQ's projection to its codes. With `averaged`, takes the
/// values of the moving average (model_ema.*). Throws UserError if two tensors get one name; `from`
/// names the weights' origin in the message.
ImportedWeights import_weights(const TensorMap& tensors, bool averaged, const std::string& from);

/// Throws UserError, listing the first names and the number of others, if tensors are unexpected or
/// missing.
void check_all_placed(const TensorMap& wanted, const TensorMap& given, const std::string& from);

}  // namespace nsvq
