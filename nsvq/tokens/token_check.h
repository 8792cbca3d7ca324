#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "nsvq/tokens/token_manifest.h"
#include "nsvq/tokens/token_shard.h"

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

/// What is wrong with a record, whatever the shard's bytes: one of no shard that there is to be, or
/// of another number of images.
std::optional<std::string> damage_of_record(const TokenManifest& manifest,
                                            const ShardRecord& record);

struct TokenProblem {
  std::string file;  ///< its name in the folder
  std::string what;  ///< in one line that names it
};

/// For each sound shard and its path; a UserError that it throws is a problem of that shard.
using UseShard = std::function<void(const TokenShard&, const std::filesystem::path&)>;

/// What is wrong or missing in a folder, in order; nothing for one that is complete and sound.
std::vector<TokenProblem> check_tokens(const std::filesystem::path& folder,
                                       const TokenManifest& manifest, const UseShard& use = {});
/// Throws UserError with the first problem.
void require_sound(const std::filesystem::path& folder, const TokenManifest& manifest,
                   const UseShard& use = {});

}  // namespace nsvq
