#pragma once

#include <torch/types.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "nsvq/io/files/file.h"
#include "nsvq/tokens/token_folder.h"

namespace nsvq {

/// Settings of a folder of `images` images of 2x3 tokens, two in a shard, without a model.
inline TokenSettings small_settings(int64_t images, char names = 'b') {
  return {.model_sha256 = std::string(64, 'a'),
          .codes = 300,
          .grid_height = 2,
          .grid_width = 3,
          .image_height = 16,
          .image_width = 24,
          .images = images,
          .keys_sha256 = std::string(64, names),
          .shard_size = 2,
          .batch_size = 2};
}

inline TokenFolder small_folder(const std::filesystem::path& path, const TokenSettings& settings,
                                WorkPart part = {}) {
  return {path, settings, "photos", part, std::chrono::seconds(300)};
}

/// Makes the shard of a task: image i has the tokens i to i + 5.
inline void make_shard(const TokenFolder& folder, const ShardTask& task) {
  TokenShard shard;
  std::vector<torch::Tensor> tokens = {torch::empty({0, 2, 3}, torch::kInt64)};
  for (int64_t i = folder.first_image(task.number); i < folder.first_image(task.number + 1); ++i) {
    tokens.push_back(torch::arange(i, i + 6).view({1, 2, 3}));
    shard.classes.push_back(-1);
    shard.keys.push_back(std::to_string(i) + ".png");
  }
  shard.tokens = torch::cat(tokens);
  folder.add(task, shard, {});
}

/// A whole folder, made by one worker.
inline TokenManifest make_tokens(const std::filesystem::path& path, const TokenSettings& settings) {
  auto folder = small_folder(path, settings);
  while (const auto task = folder.take()) make_shard(folder, *task);
  return folder.finish();
}

/// The bytes of every file, at any depth.
inline std::map<std::string, std::vector<std::byte>> bytes_below(
    const std::filesystem::path& folder) {
  std::map<std::string, std::vector<std::byte>> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    auto& bytes = files[entry.path().lexically_relative(folder).string()];
    if (entry.is_regular_file()) bytes = read_file(entry.path());
  }
  return files;
}

}  // namespace nsvq
