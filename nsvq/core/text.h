#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nsvq {

/// Insertions, deletions, substitutions and swaps of neighbours that turn `a` into `b`, by bytes;
/// upper and lower case are alike.
size_t edit_distance(std::string_view a, std::string_view b);

/// The candidate at the smallest edit distance, the first of equals; empty if there are no
/// candidates.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

/// "; did you mean 'x'?" for the end of an error message, or nothing when no candidate is close.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

/// `text` in quotes for an error message: on one line, cut after `most` bytes.
std::string quote(std::string_view text, size_t most = 60);

/// Where valid UTF-8 without control characters other than tab and line ends stops: text.size() if
/// all is well.
size_t text_prefix(std::string_view text);

/// A YAML scalar that reads back as this text: plain where that is safe, else in double quotes.
std::string yaml_text(std::string_view text);

/// A number of 1 to 18 decimal digits and nothing else.
std::optional<int64_t> parse_decimal(std::string_view digits);

}  // namespace nsvq
