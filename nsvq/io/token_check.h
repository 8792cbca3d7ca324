#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "nsvq/io/token_manifest.h"
#include "nsvq/io/token_shard.h"

namespace nsvq {

/// Bytes and sha256 of a shard; the rest is the caller's.
ShardRecord describe_shard(const std::filesystem::path& path);
/// What is wrong with a shard's bytes ("is missing", ...), or nothing.
std::optional<std::string> damage_of_shard(const std::filesystem::path& folder,
                                           const ShardRecord& record);

/// A shard that is, in bytes, tokens, grid and number of images, what the manifest says. Throws
/// UserError naming the file.
TokenShard read_checked_shard(const std::filesystem::path& folder, const TokenSettings& settings,
                              const ShardRecord& record);

struct TokenProblem {
  std::string file;  ///< its name in the folder
  std::string what;  ///< in one line that names it
};

/// What is wrong or missing in a folder, in order; nothing for one that is complete and sound.
/// Throws UserError if the manifest cannot be read.
std::vector<TokenProblem> check_tokens(const std::filesystem::path& folder,
                                       const TokenManifest& manifest);

}  // namespace nsvq
