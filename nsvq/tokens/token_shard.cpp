#include "nsvq/tokens/token_shard.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "nsvq/core/error.h"
#include "nsvq/core/text.h"
#include "nsvq/io/formats/safetensors.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

/// Numbers of dimensions that a tensor may have.
struct Dimensions {
  int64_t fewest, most;
};

torch::Tensor checked_tensor(const TensorFile& file, const std::string& name,
                             torch::ScalarType type, Dimensions dimensions, const fs::path& path) {
  const auto found = file.tensors.find(name);
  if (found == file.tensors.end()) {
    throw UserError("{}: holds no tensor '{}'; is it a shard of tokens?", path.string(), name);
  }
  const int64_t count = found->second.dim();
  if (found->second.scalar_type() != type || count < dimensions.fewest || count > dimensions.most) {
    throw UserError("{}: tensor '{}' has type {} and {} dimensions, expected {} and {}",
                    path.string(), name, torch::toString(found->second.scalar_type()), count,
                    torch::toString(type),
                    dimensions.fewest == dimensions.most
                        ? fmt::to_string(dimensions.most)
                        : fmt::format("{} to {}", dimensions.fewest, dimensions.most));
  }
  return found->second;
}

void check_range(const TokenShard& shard, int64_t codes, const fs::path& path) {
  const auto wrong = shard.tokens.lt(0).logical_or(shard.tokens.ge(codes));
  if (!wrong.any().item<bool>()) return;
  const int64_t image = wrong.nonzero()[0][0].item<int64_t>();
  throw UserError("{}: image {} ({}) has the index {}, but the codes are 0 to {}", path.string(),
                  image, quote(shard.keys[image]),
                  shard.tokens.masked_select(wrong)[0].item<int64_t>(), codes - 1);
}

}  // namespace

torch::Tensor join_keys(const std::vector<std::string>& keys, const fs::path& path) {
  std::string text;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (keys[i].find('\0') != std::string::npos) {
      throw UserError("cannot write {}: the image {} has a zero byte in its name", path.string(),
                      quote(keys[i]));
    }
    if (i > 0) text += '\0';
    text += keys[i];
  }
  auto bytes = torch::empty({std::ssize(text)}, torch::kUInt8);
  if (!text.empty()) std::memcpy(bytes.data_ptr(), text.data(), text.size());
  return bytes;
}

std::vector<std::string> split_keys(const torch::Tensor& bytes, int64_t images) {
  std::vector<std::string> keys;
  if (images == 0 && bytes.numel() == 0) return keys;
  std::string_view text(static_cast<const char*>(bytes.data_ptr()), bytes.numel());
  while (true) {
    const size_t end = text.find('\0');
    keys.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return keys;
    text.remove_prefix(end + 1);
  }
}

torch::ScalarType token_type(int64_t codes) {
  if (codes <= 1 << 8) return torch::kUInt8;
  return codes <= 1 << 16 ? torch::kUInt16 : torch::kInt32;
}

std::string token_type_name(int64_t codes) {
  if (codes <= 1 << 8) return "uint8";
  return codes <= 1 << 16 ? "uint16" : "int32";
}

std::string token_shard_name(int64_t number) {
  return fmt::format("tokens-{:05}.safetensors", number);
}

std::optional<int64_t> token_shard_number(std::string_view name) {
  const auto stem = name.substr(0, name.find('.'));
  if (!stem.starts_with("tokens-")) return std::nullopt;
  const auto number = parse_decimal(stem.substr(7));
  if (!number || fs::path(token_shard_name(*number)).stem() != stem) return std::nullopt;
  return number;
}

void write_token_shard(const fs::path& path, const TokenShard& shard, int64_t codes) {
  const auto classes = torch::tensor(at::ArrayRef<int64_t>(shard.classes), torch::kInt64);
  write_safetensors(path, {{{"tokens", shard.tokens.to(token_type(codes))},
                            {"classes", classes},
                            {"keys", join_keys(shard.keys, path)}},
                           {}});
}

TokenShard read_token_shard(const fs::path& path, int64_t codes) {
  const auto file = read_safetensors(path);
  TokenShard shard;
  constexpr Dimensions list = {1, 1}, of_images = {2, 5};
  shard.tokens = checked_tensor(file, "tokens", token_type(codes), of_images, path).to(at::kLong);
  const int64_t images = shard.tokens.size(0);
  const auto classes = checked_tensor(file, "classes", torch::kInt64, list, path);
  shard.classes.assign(classes.data_ptr<int64_t>(), classes.data_ptr<int64_t>() + classes.numel());
  shard.keys = split_keys(checked_tensor(file, "keys", torch::kUInt8, list, path), images);
  if (std::ssize(shard.keys) != images || std::ssize(shard.classes) != images) {
    throw UserError("{}: {} images have {} keys and {} classes", path.string(), images,
                    shard.keys.size(), shard.classes.size());
  }
  const auto nameless = std::find(shard.keys.begin(), shard.keys.end(), "");
  if (nameless != shard.keys.end()) {
    throw UserError("{}: image {} has no key", path.string(), nameless - shard.keys.begin());
  }
  check_range(shard, codes, path);
  return shard;
}

}  // namespace nsvq
