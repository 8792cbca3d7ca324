#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace nsvq {

/// A value whose members keep the order in which they were added, for what is written. What is read
/// is nlohmann::json.
using Json = nlohmann::ordered_json;

/// Parses JSON from a file, in time proportional to its length. Also refuses values nested deeper
/// than `deepest` (printing or copying them would overflow the stack) and objects with two members
/// of the same name. Throws UserError, without the file's name.
nlohmann::json parse_json(std::string_view text, int deepest = 32);

/// parse_json for a regular file. Throws UserError naming it.
nlohmann::json read_json(const std::filesystem::path& path);

/// A whole number from `least` to `most`. Throws UserError, calling it `name`, for everything else,
/// such as 1.5 or "2".
int64_t whole_number(const nlohmann::json& value, std::string_view name, int64_t least = 0,
                     int64_t most = INT64_MAX);

/// The library's error message without its prefix "[json.exception...] ".
std::string plain_words(const nlohmann::json::exception& error);

/// A value for an error message: on one line, shortened if it is long.
std::string shown_json(const nlohmann::json& value);

}  // namespace nsvq
