#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace nsvq {

/// The Castagnoli CRC of RFC 3720. `before` is that of the bytes in front, for data in pieces.
uint32_t crc32c(std::span<const std::byte> bytes, uint32_t before = 0);

/// As TFRecord files store it: rotated and shifted, since a CRC of data that holds CRCs is weak.
uint32_t masked_crc32c(std::span<const std::byte> bytes);

}  // namespace nsvq
