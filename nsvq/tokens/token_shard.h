#pragma once

#include <torch/types.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nsvq {

/// The tokens of consecutive images of a source. In the file, a safetensors one:
///   tokens   [n, h, w]  uint8, uint16 or int32, the smallest that holds the number of codes
///   classes  [n]        int64, -1 for an image without a class
///   keys     [bytes]    uint8, the images' names with a zero byte between them
struct TokenShard {
  torch::Tensor tokens;  ///< [n, h, w] int64
  std::vector<int64_t> classes;
  std::vector<std::string> keys;
};

/// The type in which tokens of a model with so many codes are stored, and its name in numpy.
torch::ScalarType token_type(int64_t codes);
std::string token_type_name(int64_t codes);

/// tokens-00000.safetensors and so on.
std::string token_shard_name(int64_t number);
/// The number of such a name, whatever its ending.
std::optional<int64_t> token_shard_number(std::string_view name);

/// Keys of images as a tensor [bytes] of uint8, a zero byte between them; throws UserError, naming
/// the file they are for, for a key that holds one. And back: as many keys as the bytes say;
/// `images` tells no key from one empty key.
torch::Tensor join_keys(const std::vector<std::string>& keys, const std::filesystem::path& path);
std::vector<std::string> split_keys(const torch::Tensor& bytes, int64_t images);

/// Throws UserError for a key that holds a zero byte, RunError if the file cannot be written.
void write_token_shard(const std::filesystem::path& path, const TokenShard& shard, int64_t codes);

/// Throws UserError naming the file, and the image where there is one, for anything that does not
/// add up: a tensor missing or of another type or shape, a key missing, an index out of range.
TokenShard read_token_shard(const std::filesystem::path& path, int64_t codes);

}  // namespace nsvq
