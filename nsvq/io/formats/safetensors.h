#pragma once

#include <torch/types.h>

#include <filesystem>
#include <map>
#include <string>

#include "nsvq/core/tensor_map.h"

namespace nsvq {

/// Named tensors and free text, as in the safetensors format.
struct TensorFile {
  TensorMap tensors;
  std::map<std::string, std::string> metadata;
};

/// fp64 to bf16, integers of 8 to 64 bits, signed or not, and bool, from any device. The data lies
/// contiguous, by falling element size and then by name: readers that map the file need every
/// tensor at a multiple of its element size. Atomic; one tensor at a time is in memory. Throws
/// RunError.
void write_safetensors(const std::filesystem::path& path, const TensorFile& file);

/// Throws UserError naming the file for anything that does not add up (header length, JSON, dtype,
/// shape, overlapping or out-of-range offsets, trailing bytes).
TensorFile read_safetensors(const std::filesystem::path& path);

}  // namespace nsvq
