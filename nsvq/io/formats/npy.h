#pragma once

#include <torch/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace nsvq {

/// The header that numpy writes before an array's numbers in a .npy file. `tensor` is fp64, fp32 or
/// int32.
std::string npy_header(const torch::Tensor& tensor);

enum class NpyNumbers {
  floating,  ///< fp64 or fp32
  integer,   ///< 8 to 64 bits, signed or unsigned
};

/// What stands before the numbers of a .npy file.
struct NpyHeader {
  torch::ScalarType type = torch::kDouble;
  bool by_columns = false;  ///< Fortran's order
  std::vector<int64_t> shape;
  size_t end = 0;  ///< offset of the numbers

  /// Bytes of the numbers. A product that overflows counts as the largest number, even if a
  /// dimension is 0: torch refuses such sizes.
  uint64_t bytes() const;
};

/// `bytes` begin as the file does and hold the header. Throws UserError without the file's name.
NpyHeader parse_npy_header(std::span<const std::byte> bytes, NpyNumbers numbers);

/// The array of a .npy file, little-endian, in row or (Fortran) column order. Throws UserError
/// without the file's name.
torch::Tensor parse_npy(std::span<const std::byte> bytes,
                        NpyNumbers numbers = NpyNumbers::floating);

}  // namespace nsvq
