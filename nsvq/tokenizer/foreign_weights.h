#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "nsvq/core/tensor_map.h"

namespace nsvq {

/// Shapes of tensors by their names.
using NamedShapes = std::map<std::string, std::vector<int64_t>>;

/// What a file of another program holds, without its tensors' numbers.
struct ForeignWeights {
  /// The dict that the tensors are of, where a PyTorch file has others beside it; else empty.
  std::string part;
  NamedShapes shapes;  ///< by their names as they stand there
};

/// Reads a safetensors file or a PyTorch file (.pt, .pth, .ckpt, .bin, .jit). Throws UserError.
ForeignWeights read_foreign_shapes(const std::filesystem::path& path);
/// The tensors of such a file.
TensorMap read_foreign_tensors(const std::filesystem::path& path);

/// A name of a tensor without what DataParallel, torch.compile, Lightning and latent diffusion put
/// before it.
std::string without_wrappers(std::string name);

/// How a program names the tensors of its tokenizer.
struct ForeignLayout {
  /// A name that begins so; with `inputs`, of a tensor whose second size it is.
  struct Key {
    std::string begins;
    int64_t inputs = 0;
  };
  std::string name;
  std::vector<Key> has;            ///< each of them is there
  std::vector<std::string> lacks;  ///< no name begins with one of these
  bool importable = false;         ///< whether import_weights makes a tokenizer of it
};

/// The layouts that are recognised, each before those that it also fits.
const std::vector<ForeignLayout>& foreign_layouts();

/// The layout of these tensors, whose names may have wrappers; null for one that is not known.
const ForeignLayout* recognise_layout(const NamedShapes& shapes);

/// "LlamaGen's VQ is recognised; its backbone is not supported yet".
std::string describe_layout(const ForeignLayout& layout);

}  // namespace nsvq
