#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "nsvq/tokens/token_manifest.h"
#include "nsvq/tokens/token_shard.h"

namespace nsvq {

/// A shard's file name, bytes and sha256; the caller adds its images.
ShardRecord describe_shard(const std::filesystem::path& path);
/// What is wrong with a shard's bytes ("is missing", ...); nullopt if it is intact.
std::optional<std::string> damage_of_shard(const std::filesystem::path& folder,
                                           const ShardRecord& record);

/// Reads a shard and checks its bytes, tokens, grid and number of images against the manifest.
/// Throws UserError naming the file.
TokenShard read_checked_shard(const std::filesystem::path& folder, const TokenSettings& settings,
                              const ShardRecord& record);

/// All tokens of a folder, in the order of its shards: a training set.
struct AllTokens {
  torch::Tensor tokens;  ///< int32 [n, h, w], or with TokenSettings::shape; undefined if mapped
  /// If mapped, those of each shard, in the type and in the file where they are stored.
  std::vector<torch::Tensor> shards;
  std::vector<int64_t> classes;
  std::vector<std::string> keys, class_names;
};

/// Reads the shards of a complete folder one by one, as read_checked_shard does. `mapped`: the
/// tokens stay in their files (map_tensor in io/formats/mapped_tensor.h).
AllTokens read_all_tokens(const std::filesystem::path& folder, const TokenManifest& manifest,
                          bool mapped = false);

/// What is wrong with a record, without reading its shard: the folder has no shard of that number,
/// or a different number of images belongs into it. nullopt if it is correct.
std::optional<std::string> damage_of_record(const TokenManifest& manifest,
                                            const ShardRecord& record);

struct TokenProblem {
  std::string file;  ///< its name in the folder
  std::string what;  ///< in one line that names it
};

/// Called with each intact shard and its path; a UserError that it throws counts as that shard's
/// problem.
using UseShard = std::function<void(const TokenShard&, const std::filesystem::path&)>;

/// Everything wrong or missing in a folder, in order of shards; empty if it is complete and intact.
std::vector<TokenProblem> check_tokens(const std::filesystem::path& folder,
                                       const TokenManifest& manifest, const UseShard& use = {});
/// Throws UserError with the first problem.
void require_sound(const std::filesystem::path& folder, const TokenManifest& manifest,
                   const UseShard& use = {});

/// The manifest of a complete folder, whose shards are all checked. Throws UserError if it is
/// incomplete, and as require_sound does.
TokenManifest open_complete_tokens(const std::filesystem::path& folder, const UseShard& use = {});

}  // namespace nsvq
