#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace nsvq {

/// A line for each value that is no object: lists as 8x8, all else as it is.
void print_values(const nlohmann::ordered_json& json);

/// "classes 3: bee, cat, dog": the first ten.
void print_classes(const std::vector<std::string>& names);

}  // namespace nsvq
