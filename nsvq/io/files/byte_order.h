#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace nsvq {

/// The number in up to eight bytes, most significant byte first.
inline uint64_t big_endian(std::span<const std::byte> bytes) {
  uint64_t value = 0;
  for (const std::byte byte : bytes) value = value << 8 | std::to_integer<uint64_t>(byte);
  return value;
}

/// The number in up to eight bytes, least significant byte first.
inline uint64_t little_endian(std::span<const std::byte> bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | std::to_integer<uint64_t>(bytes[i]);
  return value;
}

}  // namespace nsvq
