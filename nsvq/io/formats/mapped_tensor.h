#pragma once

#include <torch/types.h>

#include <filesystem>
#include <string>

namespace nsvq {

/// A tensor of a safetensors file, whose numbers stay in the file: the system reads the pages that
/// are used, and may drop them again. It must not be written to. Throws UserError, naming the
/// file, where read_safetensors would, for a tensor that is not there, and for one whose numbers do
/// not lie at a multiple of their size.
torch::Tensor map_tensor(const std::filesystem::path& path, const std::string& name);

}  // namespace nsvq
