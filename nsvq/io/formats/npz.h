#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "nsvq/io/formats/safetensors.h"

namespace nsvq {

/// Writes named arrays like np.savez: an uncompressed zip file of .npy files. Equal arrays give
/// equal bytes. fp64 and fp32, from any device. Atomic. Throws RunError.
void write_npz(const std::filesystem::path& path, const TensorMap& arrays);

/// Names of the arrays. Throws UserError naming the file if it is no zip file.
std::vector<std::string> npz_names(const std::filesystem::path& path);

/// Reads the arrays of these names, and of the `optional` names if they exist, from a file of
/// np.savez or np.savez_compressed. Throws UserError naming the file if it is no zip file,
/// truncated or damaged (checksums are compared), and for an array that is missing, larger than 1
/// GiB, or neither fp64 nor fp32. Allocates nothing for a size that the compressed bytes cannot
/// expand to.
TensorMap read_npz(const std::filesystem::path& path, const std::vector<std::string>& names,
                   const std::vector<std::string>& optional = {});

}  // namespace nsvq
