#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace nsvq {

/// SHA-256 (FIPS 180-4) of bytes that come in pieces.
class Sha256 {
 public:
  void add(std::span<const std::byte> bytes);
  /// The digest of all that was added, 64 lower-case digits. More may be added afterwards.
  std::string hex() const;

 private:
  static constexpr size_t kBlock = 64;

  std::array<uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, kBlock> waiting_{};  // the first length_ % kBlock hold an unfinished block
  uint64_t length_ = 0;
};

}  // namespace nsvq
