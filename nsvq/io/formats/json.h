#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace nsvq {

/// Parses JSON that came from a file, in time proportional to its length. Refused besides what is
/// no JSON: values nested deeper than `deepest` (printing or copying them would overflow the stack)
/// and an object with two members of one name. Throws UserError, without the file's name.
nlohmann::json parse_json(std::string_view text, int deepest = 32);

/// As parse_json, of a regular file. Throws UserError naming it.
nlohmann::json read_json(const std::filesystem::path& path);

/// A whole number from `least` to `most`; UserError for anything else, such as 1.5 or "2", calling
/// it `name`.
int64_t whole_number(const nlohmann::json& value, std::string_view name, int64_t least = 0,
                     int64_t most = INT64_MAX);

/// What the library says is wrong, without the name that it has for the error.
std::string plain_words(const nlohmann::json::exception& error);

/// A value for an error message: in one line, cut where it is long.
std::string shown_json(const nlohmann::json& value);

}  // namespace nsvq
