#pragma once

#include <nlohmann/json_fwd.hpp>

namespace nsvq {

/// A line for each value that is no object: lists as 8x8, all else as it is.
void print_values(const nlohmann::ordered_json& json);

}  // namespace nsvq
