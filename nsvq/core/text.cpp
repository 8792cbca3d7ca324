#include "nsvq/core/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <set>

namespace nsvq {

namespace {

bool is_continuation(char c) { return (static_cast<uint8_t>(c) & 0xc0) == 0x80; }

/// Bytes of the first character of `text`, which is not empty; 0 if it is invalid UTF-8 or a
/// control character other than tab and line ends.
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

/// Every byte as \\xNN.
std::string escaped_bytes(std::string_view bytes) {
  std::string shown;
  for (const char c : bytes) shown += fmt::format("\\x{:02x}", static_cast<uint8_t>(c));
  return shown;
}

/// Marks that change the direction of writing, and separators of lines.
bool reorders_or_breaks(std::string_view character) {
  static const std::set<std::string_view> kMarks = {
      "\u061c", "\u200e", "\u200f", "\u2028", "\u2029", "\u202a", "\u202b",
      "\u202c", "\u202d", "\u202e", "\u2066", "\u2067", "\u2068", "\u2069"};
  return kMarks.contains(character);
}

}  // namespace

size_t edit_distance(std::string_view a, std::string_view b) {
  // Rows of the dynamic-programming table: row[j] is the distance of a's first i bytes to b's first
  // j.
  std::vector<size_t> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    before.swap(above);
    above.swap(row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t differs = lower_case(a[i - 1]) != lower_case(b[j - 1]);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + differs});
      const bool swapped = i > 1 && j > 1 && lower_case(a[i - 1]) == lower_case(b[j - 2]) &&
                           lower_case(a[i - 2]) == lower_case(b[j - 1]);
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  std::string best;
  size_t least = SIZE_MAX;
  word = word.substr(0, 200);  // no name is longer, and the cost is quadratic
  for (const auto& candidate : candidates) {
    const size_t distance = edit_distance(word, candidate);
    if (distance >= least) continue;
    least = distance;
    best = candidate;
  }
  return best;
}

namespace {

/// The only candidate that begins with the word, ignoring case; empty if there are several or none.
std::string only_beginning(std::string_view word, const std::vector<std::string>& candidates) {
  std::string found;
  for (const auto& candidate : candidates) {
    if (word.empty() || !lower_case(candidate).starts_with(lower_case(word))) continue;
    if (!found.empty()) return "";
    found = candidate;
  }
  return found;
}

}  // namespace

size_t misspelling_limit(size_t size) { return size < 3 ? 0 : size == 3 ? 1 : size < 12 ? 2 : 3; }

std::string word_meant(std::string_view word, const std::vector<std::string>& candidates) {
  if (auto longer = only_beginning(word, candidates); !longer.empty()) return longer;
  auto best = nearest(word, candidates);
  const bool close = edit_distance(word.substr(0, 200), best) <= misspelling_limit(word.size());
  return close ? best : "";
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates) {
  const auto meant = word_meant(word, candidates);
  return meant.empty() ? "" : fmt::format("; did you mean '{}'?", meant);
}

std::string quote(std::string_view text, size_t most) {
  std::string shown = "'";
  size_t at = 0;
  while (at < text.size() && at < most) {
    const size_t size = character_size(text.substr(at));
    if (size > 0 && static_cast<uint8_t>(text[at]) >= 0x20) {
      shown += text.substr(at, size);
    } else {
      shown += escaped_bytes(text.substr(at, 1));
    }
    at += std::max<size_t>(size, 1);
  }
  return shown + (at < text.size() ? "...'" : "'");
}

size_t text_prefix(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const size_t size = character_size(text.substr(at));
    if (size == 0) break;
    at += size;
  }
  return at;
}

std::string yaml_text(std::string_view text) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  const auto safe = [&](char c) {
    return letter(c) ||
           std::string_view("0123456789_/.-+:?&=%@~").find(c) != std::string_view::npos;
  };
  static const std::set<std::string> kWords = {"true", "false", "null", "yes", "no", "on", "off"};
  // An initial letter or slash excludes numbers and YAML indicators; a final colon would make a
  // key.
  const bool plain = !text.empty() && (letter(text[0]) || text[0] == '/') &&
                     std::all_of(text.begin(), text.end(), safe) && text.back() != ':' &&
                     !kWords.contains(lower_case(text));
  if (plain) return std::string(text);

  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      result += fmt::format("\\{}", c);
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      result += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      result += c;
    }
  }
  return result + '"';
}

std::optional<int64_t> parse_decimal(std::string_view digits) {
  if (digits.empty() || digits.size() > 18) return {};
  int64_t value = 0;
  for (const char c : digits) {
    if (c < '0' || c > '9') return {};
    value = value * 10 + (c - '0');
  }
  return value;
}

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
