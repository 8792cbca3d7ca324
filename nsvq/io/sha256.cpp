#include "nsvq/io/sha256.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <vector>

namespace nsvq {

namespace {

// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
constexpr std::array<uint32_t, 64> kRound = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

uint32_t big_endian(const std::byte* bytes) {
  uint32_t word = 0;
  for (int i = 0; i < 4; ++i) word = word << 8 | std::to_integer<uint32_t>(bytes[i]);
  return word;
}

std::array<uint32_t, 64> schedule(const std::byte* block) {
  std::array<uint32_t, 64> words;
  for (int i = 0; i < 16; ++i) words[i] = big_endian(block + 4 * i);
  for (int i = 16; i < 64; ++i) {
    const uint32_t a = words[i - 15], b = words[i - 2];
    words[i] = words[i - 16] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ a >> 3) + words[i - 7] +
               (std::rotr(b, 17) ^ std::rotr(b, 19) ^ b >> 10);
  }
  return words;
}

void mix(std::array<uint32_t, 8>& state, const std::byte* block) {
  const auto words = schedule(block);
  auto [a, b, c, d, e, f, g, h] = state;
  for (int i = 0; i < 64; ++i) {
    const uint32_t choice = (e & f) ^ (~e & g), majority = (a & b) ^ (a & c) ^ (b & c);
    const uint32_t first =
        h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + choice + kRound[i] + words[i];
    const uint32_t second = (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + majority;
    h = g, g = f, f = e, e = d + first;
    d = c, c = b, b = a, a = first + second;
  }
  const std::array<uint32_t, 8> mixed = {a, b, c, d, e, f, g, h};
  for (int i = 0; i < 8; ++i) state[i] += mixed[i];
}

}  // namespace

void Sha256::add(std::span<const std::byte> bytes) {
  const size_t filled = length_ % kBlock;
  length_ += bytes.size();
  if (filled > 0) {
    const size_t taken = std::min(bytes.size(), kBlock - filled);
    std::copy_n(bytes.begin(), taken, waiting_.begin() + filled);
    bytes = bytes.subspan(taken);
    if (filled + taken < kBlock) return;
    mix(state_, waiting_.data());
  }
  for (; bytes.size() >= kBlock; bytes = bytes.subspan(kBlock)) mix(state_, bytes.data());
  std::copy(bytes.begin(), bytes.end(), waiting_.begin());
}

std::string Sha256::hex() const {
  // A bit 1, zeros up to the last eight bytes of a block, and there the length in bits.
  const size_t filled = length_ % kBlock;
  std::vector<std::byte> padding((filled < kBlock - 8 ? kBlock : 2 * kBlock) - filled);
  padding[0] = std::byte{0x80};
  for (size_t i = 0; i < 8; ++i) {
    padding[padding.size() - 1 - i] = static_cast<std::byte>(length_ * 8 >> 8 * i);
  }
  Sha256 whole = *this;
  whole.add(padding);
  std::string text;
  for (const uint32_t word : whole.state_) text += fmt::format("{:08x}", word);
  return text;
}

}  // namespace nsvq
