#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "nsvq/quantizers/token_grid.h"

namespace nsvq {

/// All that the tokens of a folder depend on: folders with equal settings contain equal tokens.
struct TokenSettings {
  std::string model_sha256;  ///< tensors_sha256 of the model
  int64_t codes = 0;
  int64_t grid_height = 0, grid_width = 0;    ///< latents of an image
  int64_t image_height = 0, image_width = 0;  ///< pixels after resizing and cropping
  int64_t images = 0;                         ///< in the source, broken ones included
  std::string keys_sha256;                    ///< over their names, a zero byte after each
  int64_t shard_size = 0;                     ///< images of the source in a shard
  int64_t batch_size = 0;                     ///< with it the last bit of a convolution may change
  std::vector<std::string> classes = {};      ///< names by class number; empty if there are none
  std::vector<TokenGrid> scales = {};  ///< grids of tokens, in order; empty: that of the latents
  int64_t groups = 1;                  ///< tokens of each position in a grid
  /// Crops and mirror images of an image that have tokens each, by name; empty: the image alone.
  std::vector<std::string> variants = {};

  /// All grids, of a single one too.
  std::vector<TokenGrid> grids() const;
  /// Sizes of an image's tokens: [h, w], or [tokens] of all scales, in [variants, groups, ...]
  /// where there are several.
  std::vector<int64_t> shape() const;

  bool operator==(const TokenSettings&) const = default;
};

/// A finished shard.
struct ShardRecord {
  std::string file;
  int64_t images = 0;
  uint64_t bytes = 0;
  std::string sha256;
  std::vector<std::string> broken;  ///< keys of images that could not be decoded

  bool operator==(const ShardRecord&) const = default;
};

/// Images of one source in a folder that joins several: `nsvq tokens merge` of earlier versions.
struct JoinedTokens {
  std::string source;
  int64_t images = 0;
  std::string keys_sha256;

  bool operator==(const JoinedTokens&) const = default;
};

/// manifest.json of a folder of tokens.
struct TokenManifest {
  TokenSettings settings;
  std::string source;                     ///< as the user gave it, for information
  bool complete = false;                  ///< whether `shards` are all there will be
  std::vector<ShardRecord> shards;        ///< in order
  std::vector<JoinedTokens> joined = {};  ///< empty for a single source

  bool operator==(const TokenManifest&) const = default;
};

inline constexpr auto kTokenManifest = "manifest.json";

void write_token_manifest(const std::filesystem::path& folder, const TokenManifest& manifest);
/// False if the folder has a manifest already, which stays.
bool create_token_manifest(const std::filesystem::path& folder, const TokenManifest& manifest);
/// Throws UserError naming the file.
TokenManifest read_token_manifest(const std::filesystem::path& folder);

/// A finished shard's record in a file of its own. Reading throws UserError.
void write_shard_record(const std::filesystem::path& path, const ShardRecord& record);
ShardRecord read_shard_record(const std::filesystem::path& path);

/// A setting that differs between two folders.
struct TokenDifference {
  std::string text;         ///< "codes (32 here, 64 there)"
  bool of_classes = false;  ///< the setting is the names of classes
};

/// The first setting that differs; nullopt if none does.
std::optional<TokenDifference> difference(const TokenSettings& here, const TokenSettings& there);

}  // namespace nsvq
