#pragma once

#include <torch/types.h>

#include <cstddef>
#include <span>
#include <string>

namespace nsvq {

/// The header that numpy writes before an array's numbers in a .npy file. `tensor` is fp64 or fp32.
std::string npy_header(const torch::Tensor& tensor);

enum class NpyNumbers {
  floating,  ///< fp64 or fp32
  integer,   ///< 8 to 64 bits, signed or unsigned
};

/// The array of a .npy file, little-endian, in row or (Fortran) column order. Throws UserError
/// without the file's name.
torch::Tensor parse_npy(std::span<const std::byte> bytes,
                        NpyNumbers numbers = NpyNumbers::floating);

}  // namespace nsvq
