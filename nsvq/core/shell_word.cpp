#include "nsvq/core/shell_word.h"

#include <fmt/format.h>

#include "nsvq/core/text.h"

namespace nsvq {

std::string shell_word(const std::string& text) {
  const bool plain = text.find_first_not_of(
                         "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                         "0123456789_./=:,-") == std::string::npos;
  if (plain && !text.empty()) return text;
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? "'\\''" : std::string(1, c);
  return word + "'";
}

std::string shown_shell_word(const std::string& text) {
  if (printable(text) == text && text.find('\t') == std::string::npos) return shell_word(text);
  std::string word = "$'";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\'' || c == '\\') {
      word += fmt::format("\\{}", c);
    } else if (byte < 0x20 || byte >= 0x7f) {
      word += fmt::format("\\{:03o}", byte);  // three digits, since a digit may follow
    } else {
      word += c;
    }
  }
  return word + "'";
}

}  // namespace nsvq
