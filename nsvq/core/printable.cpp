#include "nsvq/core/printable.h"

#include <algorithm>
#include <set>

#include "nsvq/core/utf8.h"

namespace nsvq {

namespace {

/// Marks by which text is shown in another order than it is written, and separators of lines.
bool reorders_or_breaks(std::string_view character) {
  static const std::set<std::string_view> kMarks = {
      "\u061c", "\u200e", "\u200f", "\u2028", "\u2029", "\u202a", "\u202b",
      "\u202c", "\u202d", "\u202e", "\u2066", "\u2067", "\u2068", "\u2069"};
  return kMarks.contains(character);
}

}  // namespace

std::string printable(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    const size_t size = character_size(text);
    const auto character = text.substr(0, std::max<size_t>(size, 1));
    const bool plain = size > 0 && character != "\n" && character != "\r";
    if (plain && !reorders_or_breaks(character)) {
      shown += character;
    } else {
      shown += escaped_bytes(character);
    }
    text.remove_prefix(character.size());
  }
  return shown;
}

}  // namespace nsvq
