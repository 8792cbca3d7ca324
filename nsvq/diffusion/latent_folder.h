#pragma once

#include <torch/types.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace nsvq {

/// The encoder's output for consecutive images of a source. In the file, a safetensors one with a
/// hash of its contents:
///   latents  [n, d, h, w]  bf16
///   classes  [n]           int64, -1 for an image without a class
///   keys     [bytes]       uint8, the images' names with a zero byte between them
struct LatentShard {
  torch::Tensor latents;
  std::vector<int64_t> classes;
  std::vector<std::string> keys;
};

/// manifest.json of a folder of latents (`nsvq encode`), which is there once all shards are.
struct LatentManifest {
  std::string model_sha256;    ///< of the tokenizer's weights
  std::vector<int64_t> shape;  ///< [d, h, w] of an image's latents
  std::string source;          ///< as it was given, for people
  int64_t images = 0;          ///< in the shards
  int64_t shards = 0;
  std::vector<std::string> broken = {};   ///< keys of images that could not be decoded
  std::vector<std::string> classes = {};  ///< names by class number; empty if there are none
};

/// latents-00000.safetensors and so on.
std::string latent_shard_name(int64_t number);
void write_latent_shard(const std::filesystem::path& path, const LatentShard& shard);
/// Throws UserError naming the file unless it is as it was written, of images of this shape.
LatentShard read_latent_shard(const std::filesystem::path& path, const std::vector<int64_t>& shape);

inline constexpr auto kLatentManifest = "manifest.json";
std::string to_json_text(const LatentManifest& manifest);
/// Whether a folder has a manifest that says that it is one of latents.
bool is_latent_folder(const std::filesystem::path& folder);
/// Throws UserError naming the folder if it holds no latents, or not all of them yet.
LatentManifest read_latent_manifest(const std::filesystem::path& folder);

}  // namespace nsvq
