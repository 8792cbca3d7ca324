#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "nsvq/io/formats/safetensors.h"

namespace nsvq {

/// Writes arrays by name as np.savez does: a zip file of .npy files, not compressed, with equal
/// bytes every time. fp64 and fp32, from any device. Atomic. Throws RunError.
void write_npz(const std::filesystem::path& path, const TensorMap& arrays);

/// The arrays of these names, out of a file that np.savez or np.savez_compressed wrote; those of
/// `optional` names where there are any; others are not read. Throws UserError naming the file for
/// one that is no zip file, truncated or damaged (checksums are compared), and for an array that is
/// missing, larger than 1 GiB, or neither fp64 nor fp32. Nothing is allocated for a size that the
/// compressed bytes cannot have.
TensorMap read_npz(const std::filesystem::path& path, const std::vector<std::string>& names,
                   const std::vector<std::string>& optional = {});

}  // namespace nsvq
