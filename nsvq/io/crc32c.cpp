#include "nsvq/io/crc32c.h"

#include <array>
#include <bit>

namespace nsvq {

namespace {

constexpr std::array<uint32_t, 256> make_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < table.size(); ++byte) {
    uint32_t remainder = byte;
    for (int bit = 0; bit < 8; ++bit) {
      remainder = (remainder >> 1) ^ (remainder & 1 ? 0x82f63b78U : 0U);
    }
    table[byte] = remainder;
  }
  return table;
}

constexpr auto table = make_table();

}  // namespace

uint32_t crc32c(std::span<const std::byte> bytes) {
  uint32_t crc = 0xffffffffU;
  for (const std::byte byte : bytes) {
    crc = (crc >> 8) ^ table[(crc ^ static_cast<uint32_t>(byte)) & 0xff];
  }
  return ~crc;
}

uint32_t masked_crc32c(std::span<const std::byte> bytes) {
  return std::rotr(crc32c(bytes), 15) + 0xa282ead8U;
}

}  // namespace nsvq
