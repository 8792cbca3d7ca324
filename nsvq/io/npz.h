#pragma once

#include <torch/types.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace nsvq {

/// Arrays by name as np.savez writes them: a zip file of .npy files, not compressed. fp64 and fp32,
/// from any device. Atomic. Throws RunError.
void write_npz(const std::filesystem::path& path,
               const std::map<std::string, torch::Tensor>& arrays);

/// The arrays of these names, out of a file that np.savez or np.savez_compressed wrote; others are
/// not looked at. Throws UserError naming the file for anything that does not add up (no zip file,
/// truncated, checksum, an array that is missing or neither fp64 nor fp32).
std::map<std::string, torch::Tensor> read_npz(const std::filesystem::path& path,
                                              const std::vector<std::string>& names);

}  // namespace nsvq
