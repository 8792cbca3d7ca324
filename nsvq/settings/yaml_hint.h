#pragma once

#include <string>
#include <string_view>

namespace nsvq {

/// What is likely wrong where a YAML parser gave up at a line of a text, counted from 1: its
/// indentation, a missing colon, a missing bracket.
std::string likely_yaml_mistake(std::string_view text, int line);

/// What is wrong with the indentation of a line; empty if it fits the lines above it.
std::string wrong_indentation(std::string_view text, int line);

}  // namespace nsvq
