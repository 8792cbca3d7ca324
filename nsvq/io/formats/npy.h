#pragma once

#include <torch/types.h>

#include <cstddef>
#include <span>
#include <string>

namespace nsvq {

/// What numpy puts before the numbers of an array in a .npy file. `tensor` is fp64 or fp32.
std::string npy_header(const torch::Tensor& tensor);

enum class NpyNumbers {
  floating,  ///< fp64 or fp32
  integer,   ///< of 8 to 64 bits, signed or not
};

/// The array of a whole .npy file, little-endian, by rows or (Fortran) by columns. Throws UserError
/// without the file's name.
torch::Tensor parse_npy(std::span<const std::byte> bytes,
                        NpyNumbers numbers = NpyNumbers::floating);

}  // namespace nsvq
