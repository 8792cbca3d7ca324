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

/// Images of one source within a folder that joins several.
struct JoinedTokens {
  std::string source;
  int64_t images = 0;
  std::string keys_sha256;

  bool operator==(const JoinedTokens&) const = default;
};

/// manifest.json of a folder of tokens.
struct TokenManifest {
  TokenSettings settings;
  std::string source;                     ///< as it was given, for people
  bool complete = false;                  ///< whether `shards` are all there will be
  std::vector<ShardRecord> shards;        ///< in order
  std::vector<JoinedTokens> joined = {};  ///< of `nsvq tokens merge`, else empty

  bool operator==(const TokenManifest&) const = default;
};

inline constexpr auto kTokenManifest = "manifest.json";

void write_token_manifest(const std::filesystem::path& folder, const TokenManifest& manifest);
/// False if the folder has a manifest already, which stays.
bool create_token_manifest(const std::filesystem::path& folder, const TokenManifest& manifest);
/// Throws UserError naming the file.
TokenManifest read_token_manifest(const std::filesystem::path& folder);

/// A finished shard's part of the manifest as a file of its own. Reading throws UserError.
void write_shard_record(const std::filesystem::path& path, const ShardRecord& record);
ShardRecord read_shard_record(const std::filesystem::path& path);

/// A setting in which two folders differ.
struct TokenDifference {
  std::string text;         ///< "codes (32 here, 64 there)"
  bool of_classes = false;  ///< whether it is that of the names of classes
};

/// The first of them.
std::optional<TokenDifference> difference(const TokenSettings& here, const TokenSettings& there);

}  // namespace nsvq
