#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nsvq/io/files/byte_order.h"

namespace nsvq {

/// Numbers and texts one after another, for files of our own.
class PackedWriter {
 public:
  void number(int64_t value) {
    for (int i = 0; i < 8; ++i) bytes_.push_back(static_cast<std::byte>(value >> (8 * i)));
  }
  void text(std::string_view text) {
    number(std::ssize(text));
    const auto bytes = std::as_bytes(std::span(text));
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

/// Reads them back. Nothing of the bytes is believed: where they do not hold what is asked for,
/// `good` turns false and everything reads as zero or empty.
class PackedReader {
 public:
  explicit PackedReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  int64_t number() { return static_cast<int64_t>(little_endian(take(8))); }
  std::string text() {
    const auto bytes = take(number());
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  /// How many things follow, of at least `least` bytes each.
  int64_t count(int64_t least) {
    const int64_t count = number();
    if (count >= 0 && count <= std::ssize(bytes_) / least) return count;
    good_ = false;
    return 0;
  }
  bool good() const { return good_; }
  /// Whether all was good and nothing is left.
  bool complete() const { return good_ && bytes_.empty(); }

 private:
  std::span<const std::byte> take(int64_t size) {
    good_ = good_ && size >= 0 && size <= std::ssize(bytes_);
    if (!good_) return {};
    const auto taken = bytes_.first(static_cast<size_t>(size));
    bytes_ = bytes_.subspan(static_cast<size_t>(size));
    return taken;
  }

  std::span<const std::byte> bytes_;
  bool good_ = true;
};

}  // namespace nsvq
