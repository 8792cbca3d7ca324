#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace nsvq {

/// CRC-32C (Castagnoli, RFC 3720). For data in pieces, `before` is the CRC of the bytes before.
uint32_t crc32c(std::span<const std::byte> bytes, uint32_t before = 0);

/// CRC-32C in the form that TFRecord files store: rotated, plus a constant, since a CRC over data
/// that contains CRCs is weak.
uint32_t masked_crc32c(std::span<const std::byte> bytes);

}  // namespace nsvq
