#include "nsvq/io/files/crc32c.h"

#include <array>
#include <bit>
#include <cstring>

namespace nsvq {

namespace {

static_assert(std::endian::native == std::endian::little, "eight bytes at a time are read so");

/// tables[n][byte]: what a byte does to the remainder when n more bytes follow it.
constexpr auto make_tables() {
  std::array<std::array<uint32_t, 256>, 8> tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t remainder = byte;
    for (int bit = 0; bit < 8; ++bit) {
      remainder = (remainder >> 1) ^ (remainder & 1 ? 0x82f63b78U : 0U);
    }
    tables[0][byte] = remainder;
  }
  for (size_t n = 1; n < tables.size(); ++n) {
    for (uint32_t byte = 0; byte < 256; ++byte) {
      const uint32_t before = tables[n - 1][byte];
      tables[n][byte] = (before >> 8) ^ tables[0][before & 0xff];
    }
  }
  return tables;
}

constexpr auto tables = make_tables();

}  // namespace

uint32_t crc32c(std::span<const std::byte> bytes, uint32_t before) {
  uint32_t crc = ~before;
  while (bytes.size() >= 8) {
    uint64_t next;
    std::memcpy(&next, bytes.data(), sizeof(next));
    next ^= crc;
    crc = 0;
    for (int n = 0; n < 8; ++n) crc ^= tables[7 - n][(next >> (8 * n)) & 0xff];
    bytes = bytes.subspan(8);
  }
  for (const std::byte byte : bytes) {
    crc = (crc >> 8) ^ tables[0][(crc ^ static_cast<uint32_t>(byte)) & 0xff];
  }
  return ~crc;
}

uint32_t masked_crc32c(std::span<const std::byte> bytes) {
  return std::rotr(crc32c(bytes), 15) + 0xa282ead8U;
}

}  // namespace nsvq
