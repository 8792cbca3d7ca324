#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace nsvq {

/// What the tokens of a folder depend on. Two folders of equal settings hold the same tokens.
struct TokenSettings {
  std::string model_sha256;  ///< tensors_sha256 of the model
  int64_t codes = 0;
  int64_t grid_height = 0, grid_width = 0;    ///< of the tokens of an image
  int64_t image_height = 0, image_width = 0;  ///< of an image after resizing and cropping
  int64_t images = 0;                         ///< in the source, broken ones included
  std::string keys_sha256;                    ///< of their names, a zero byte after each
  int64_t shard_size = 0;                     ///< images of the source in a shard
  int64_t batch_size = 0;  ///< convolutions of other batches may differ in the last bit
  std::vector<std::string> classes = {};  ///< names by class number; empty if there are none
};

/// A finished shard.
struct ShardRecord {
  std::string file;
  int64_t images = 0;
  uint64_t bytes = 0;
  std::string sha256;
  std::vector<std::string> broken;  ///< keys of images that could not be decoded
};

/// manifest.json of a folder of tokens.
struct TokenManifest {
  TokenSettings settings;
  std::string source;               ///< as it was given, for people
  bool complete = false;            ///< whether `shards` are all there will be
  std::vector<ShardRecord> shards;  ///< in order
};

inline constexpr auto kTokenManifest = "manifest.json";

void write_token_manifest(const std::filesystem::path& folder, const TokenManifest& manifest);
/// Throws UserError naming the file.
TokenManifest read_token_manifest(const std::filesystem::path& folder);

/// The first setting that differs, as "codes (32 here, 64 there)".
std::optional<std::string> difference(const TokenSettings& here, const TokenSettings& there);

/// Bytes and sha256 of a shard; the rest is the caller's.
ShardRecord describe_shard(const std::filesystem::path& path);
/// What is wrong with a shard ("is missing", ...), or nothing.
std::optional<std::string> damage_of_shard(const std::filesystem::path& folder,
                                           const ShardRecord& record);

}  // namespace nsvq
