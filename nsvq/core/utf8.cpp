#include "nsvq/core/utf8.h"

#include <fmt/format.h>

#include <cstdint>

namespace nsvq {

namespace {

bool is_continuation(char c) { return (static_cast<uint8_t>(c) & 0xc0) == 0x80; }

}  // namespace

size_t character_size(std::string_view text) {
  const auto first = static_cast<uint8_t>(text[0]);
  if (first < 0x80) {
    const bool control = first < 0x20 || first == 0x7f;
    return control && first != '\t' && first != '\n' && first != '\r' ? 0 : 1;
  }
  const size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < size) return 0;
  uint32_t code = first & (0x7f >> size);
  for (size_t i = 1; i < size; ++i) {
    if (!is_continuation(text[i])) return 0;
    code = code << 6 | (static_cast<uint8_t>(text[i]) & 0x3f);
  }
  const bool overlong = (size == 3 && code < 0x800) || (size == 4 && code < 0x10000);
  const bool surrogate = code >= 0xd800 && code < 0xe000;
  return overlong || surrogate || code < 0xa0 || code > 0x10ffff ? 0 : size;
}

std::string escaped_bytes(std::string_view bytes) {
  std::string shown;
  for (const char c : bytes) shown += fmt::format("\\x{:02x}", static_cast<uint8_t>(c));
  return shown;
}

}  // namespace nsvq
