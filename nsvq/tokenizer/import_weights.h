#pragma once

#include <torch/types.h>

#include <map>
#include <string>
#include <vector>

namespace nsvq {

/// Weights of another program under the names that this one uses.
struct ImportedWeights {
  std::map<std::string, torch::Tensor> tensors;
  /// Known tensors that a tokenizer does not need, counted by their first name ("loss").
  std::map<std::string, int64_t> left_out;
};

/// Renames weights as taming-transformers, SimVQ and Open-MAGVIT2 store them; names of this program
/// stay. SimVQ's projection is applied to its codes. With `averaged`, the values are those of the
/// moving average (model_ema.*). `from` is what errors call the weights. Names that no rule knows
/// stay as they are. Throws UserError if two tensors get one name.
ImportedWeights import_weights(const std::map<std::string, torch::Tensor>& tensors, bool averaged,
                               const std::string& from);

/// Throws UserError, in one line with the first names and the number of all, if tensors are left
/// over or missing.
void check_all_placed(const std::map<std::string, torch::Tensor>& wanted,
                      const std::map<std::string, torch::Tensor>& given, const std::string& from);

}  // namespace nsvq
