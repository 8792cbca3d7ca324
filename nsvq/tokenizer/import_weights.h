#pragma once

#include <torch/types.h>

#include <map>
#include <string>
#include <vector>

namespace nsvq {

/// Weights of another program, renamed to nsvq's names.
struct ImportedWeights {
  std::map<std::string, torch::Tensor> tensors;
  /// Number of known tensors that a tokenizer does not need, by the first part of their name
  /// ("loss").
  std::map<std::string, int64_t> left_out;
};

/// Renames the weights of taming-transformers, SimVQ and Open-MAGVIT2 to nsvq's names; names that
/// no rule matches are kept. Applies SimVQ's projection to its codes. With `averaged`, takes the
/// values of the moving average (model_ema.*). Throws UserError if two tensors get one name; `from`
/// names the weights' origin in the message.
ImportedWeights import_weights(const std::map<std::string, torch::Tensor>& tensors, bool averaged,
                               const std::string& from);

/// Throws UserError, listing the first names and the number of others, if tensors are unexpected or
/// missing.
void check_all_placed(const std::map<std::string, torch::Tensor>& wanted,
                      const std::map<std::string, torch::Tensor>& given, const std::string& from);

}  // namespace nsvq
