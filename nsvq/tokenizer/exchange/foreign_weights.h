#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "nsvq/core/tensor_map.h"
#include "nsvq/tokenizer/layouts/layout.h"

namespace nsvq {

/// What a file of another program holds, without its tensors' numbers.
struct ForeignWeights {
  /// The dict that the tensors are of, where a PyTorch file has others beside it; else empty.
  std::string part;
  std::string average;  ///< the dict with their moving average there; empty without one
  NamedShapes shapes;   ///< by their names as they stand there
};

/// The files of weights in a folder of another program: the one that has a usual name, such as
/// diffusers', or Cosmos' two, of its encoder and its decoder; none in any other folder.
std::vector<std::filesystem::path> usual_weights(const std::filesystem::path& folder);
/// The files that a user names: a file, or those of a folder. Throws UserError for one without.
std::vector<std::filesystem::path> weights_files(const std::filesystem::path& named);

/// Reads a safetensors file or a PyTorch file (.pt, .pth, .ckpt, .bin, .jit). Throws UserError.
ForeignWeights read_foreign_shapes(const std::filesystem::path& path);
/// The tensors of such a file, or of its dict with their moving average.
TensorMap read_foreign_tensors(const std::filesystem::path& path, bool averaged = false);

/// A tensor's name without what DataParallel, torch.compile and Lightning put before it.
std::string without_wrappers(std::string_view name);

/// The tensors of a file that are a tokenizer's, by their names without what DataParallel,
/// torch.compile, Lightning and a model that the tokenizer is a part of put before them.
struct TokenizerNames {
  NamedShapes shapes;
  std::map<std::string, std::string> originals;  ///< the names in the file by those of `shapes`
  /// How many tensors belong to other parts of a larger model, by the first part of their names.
  std::map<std::string, int64_t> outside;
  std::string twice;  ///< a name that two tensors have without what is before it
};
TokenizerNames tokenizer_names(const NamedShapes& shapes);

}  // namespace nsvq
