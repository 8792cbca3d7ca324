#pragma once

#include <filesystem>

#include "nsvq/cli/output/json_output.h"

namespace nsvq {

void show_latents(const std::filesystem::path& folder, JsonOutput& output);

}  // namespace nsvq
