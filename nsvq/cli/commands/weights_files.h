#pragma once

#include <filesystem>
#include <string>

#include "nsvq/nn/weights.h"

namespace nsvq {

/// The tensors that a file of the store holds (nsvq/nn/weights.h), out of those of a user's file:
/// torchvision's names for a network, and for heads `lin0.weight` or the lpips package's
/// `lin0.model.1.weight`. The rest, such as a classifier, is left out. Throws UserError, naming
/// `from`, for tensors that are missing or of another shape.
TensorMap pick_tensors(const std::string& name, const TensorMap& tensors, const std::string& from);

/// Tensors of a safetensors file or, by scripts/weights.py, of a .pth file.
TensorMap read_user_file(const std::filesystem::path& path);

}  // namespace nsvq
