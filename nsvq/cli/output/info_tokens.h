#pragma once

#include <filesystem>

#include "nsvq/cli/output/json_output.h"

namespace nsvq {

bool is_token_folder(const std::filesystem::path& path);
void show_tokens(const std::filesystem::path& folder, JsonOutput& output);

/// Whether a file is one shard of a folder of tokens, by the manifest beside it or by its tensors.
bool is_token_shard(const std::filesystem::path& path);
/// Throws UserError where it is damaged.
void show_shard(const std::filesystem::path& path, JsonOutput& output);

}  // namespace nsvq
