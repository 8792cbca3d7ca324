#pragma once

#include <fmt/format.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nsvq {

/// "1 image", "2 images".
std::string count_of(std::integral auto number, std::string_view thing) {
  return fmt::format("{} {}{}", number, thing, number == 1 ? "" : "s");
}

/// A to Z in lower case, whatever the locale; all other bytes stay.
constexpr char lower_case(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}
inline std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = lower_case(c);
  return lower;
}

/// Least number of insertions, deletions, substitutions and swaps of adjacent bytes that turn `a`
/// into `b`, ignoring case.
size_t edit_distance(std::string_view a, std::string_view b);

/// The candidate at the smallest edit distance, the first one of a tie; empty if there are none.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

/// The most edits by which a word of `size` bytes is taken for a misspelling of another: 0 below 3
/// bytes, 1 of 3, 2 below 12, else 3.
size_t misspelling_limit(size_t size);

/// The candidate that a word stands for: the only one that begins with it, or else the nearest
/// within misspelling_limit; empty if there is none.
std::string word_meant(std::string_view word, const std::vector<std::string>& candidates);

/// "; did you mean 'x'?" with word_meant, for the end of an error message, or nothing.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

/// `text` in quotes, on one line and cut after `most` bytes: for the parts of a message that came
/// from a file or a user. (`printable` is for whole lines.)
std::string quote(std::string_view text, size_t most = 60);

/// `text` fit for one line of a terminal or a log, whatever file it came from: control characters
/// (escape sequences, line ends), marks that change the direction of writing and bytes that are not
/// UTF-8 become \\xNN. Tabs stay. The log does this to every line; code that prints text of files
/// to standard output calls it. (`quote` is for the parts of a message.)
std::string printable(std::string_view text);

/// Length of the longest prefix that is valid UTF-8 without control characters other than tab and
/// line ends; text.size() if all of `text` is.
size_t text_prefix(std::string_view text);

/// A YAML scalar that reads back as this text: plain where that is safe, else in double quotes.
std::string yaml_text(std::string_view text);

/// Parses 1 to 18 decimal digits; nullopt if there is anything else.
std::optional<int64_t> parse_decimal(std::string_view digits);

/// A text as one word for a POSIX shell: unchanged where that is safe, else in quotes.
std::string shell_word(const std::string& text);

/// shell_word for a command that is printed: bytes that a terminal would act on, or not show, are
/// escaped within $'...', which bash, zsh and ksh read, but not every sh.
std::string shown_shell_word(const std::string& text);

}  // namespace nsvq
