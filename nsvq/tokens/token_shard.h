#pragma once

#include <torch/types.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nsvq {

/// The tokens of consecutive images of a source. The safetensors file contains
///   tokens   [n, h, w]  uint8, uint16 or int32, the smallest that holds the number of codes; with
///                       scales, groups or variants of other sizes (TokenSettings::shape)
///   classes  [n]        int64, -1 for an image without a class
///   keys     [bytes]    uint8, the images' names with a zero byte between them
struct TokenShard {
  torch::Tensor tokens;  ///< int64, of the n images in dimension 0
  std::vector<int64_t> classes;
  std::vector<std::string> keys;
};

/// The type in which tokens of a model with this many codes are stored, and its name in numpy.
torch::ScalarType token_type(int64_t codes);
std::string token_type_name(int64_t codes);

/// tokens-00000.safetensors and so on.
std::string token_shard_name(int64_t number);
/// The number in such a name with any ending; nullopt for all other names.
std::optional<int64_t> token_shard_number(std::string_view name);

/// Converts keys of images to a tensor [bytes] of uint8, with a zero byte between them, and back.
/// Throws UserError naming the file `path` for a key that contains a zero byte. `images`
/// distinguishes no key from one empty key.
torch::Tensor join_keys(const std::vector<std::string>& keys, const std::filesystem::path& path);
std::vector<std::string> split_keys(const torch::Tensor& bytes, int64_t images);

/// Throws UserError for a key that contains a zero byte, RunError if the file cannot be written.
void write_token_shard(const std::filesystem::path& path, const TokenShard& shard, int64_t codes);

/// Throws UserError naming the file, and the image if there is one, for invalid contents: a tensor
/// is missing or has the wrong type, a key is missing, an index is out of range. The sizes of an
/// image's tokens are not checked.
TokenShard read_token_shard(const std::filesystem::path& path, int64_t codes);

}  // namespace nsvq
