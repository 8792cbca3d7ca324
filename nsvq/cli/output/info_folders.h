#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>

#include "nsvq/cli/output/json_output.h"
#include "nsvq/io/formats/json.h"

namespace nsvq {

/// A line for each value that is no object; lists as 8x8.
void print_values(const Json& json);

// What `nsvq info` shows of folders of tokens, their shards and folders of latents.

bool is_token_folder(const std::filesystem::path& path);
void show_tokens(const std::filesystem::path& folder, JsonOutput& output);

/// Whether a file is a shard of tokens, by the manifest beside it or by its tensors.
bool is_token_shard(const std::filesystem::path& path);
/// Throws UserError where it is damaged.
void show_shard(const std::filesystem::path& path, JsonOutput& output);

void show_latents(const std::filesystem::path& folder, JsonOutput& output);

}  // namespace nsvq
