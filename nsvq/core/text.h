#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nsvq {

/// Least number of insertions, deletions, substitutions and swaps of adjacent bytes that turn `a`
/// into `b`, ignoring case.
size_t edit_distance(std::string_view a, std::string_view b);

/// The candidate at the smallest edit distance, the first one of a tie; empty if there are none.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

/// "; did you mean 'x'?" for the end of an error message, or nothing when no candidate is close.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

/// `text` in quotes, on one line and cut after `most` bytes: for the parts of a message that came
/// from a file or a user. (printable.h is for whole lines.)
std::string quote(std::string_view text, size_t most = 60);

/// Length of the longest prefix that is valid UTF-8 without control characters other than tab and
/// line ends; text.size() if all of `text` is.
size_t text_prefix(std::string_view text);

/// A YAML scalar that reads back as this text: plain where that is safe, else in double quotes.
std::string yaml_text(std::string_view text);

/// Parses 1 to 18 decimal digits; empty if there is anything else.
std::optional<int64_t> parse_decimal(std::string_view digits);

}  // namespace nsvq
