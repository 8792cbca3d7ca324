#include "nsvq/tokens/token_shard.h"

#include <gtest/gtest.h>

#include <functional>

#include "nsvq/core/error.h"
#include "nsvq/core/temporary_folder.h"
#include "nsvq/core/tensor_map.h"
#include "nsvq/io/files/file.h"
#include "nsvq/io/formats/safetensors.h"

namespace nsvq {
namespace {

TokenShard some_shard(int64_t codes, int64_t images = 3) {
  TokenShard shard;
  shard.tokens = at::randint(0, codes, {images, 2, 5}, at::kLong);
  if (images > 0) shard.tokens[0][0][0] = codes - 1;
  for (int64_t i = 0; i < images; ++i) {
    shard.keys.push_back("cats/ä\n" + std::to_string(i) + ".jpg");
    shard.classes.push_back(i - 1);
  }
  return shard;
}

class TokenShards : public testing::Test {
 protected:
  /// The one-line message of the UserError that reading gives; empty where it gives none.
  std::string error_of_reading(int64_t codes) {
    try {
      read_token_shard(path_, codes);
    } catch (const UserError& error) {
      const std::string message = error.what();
      EXPECT_NE(message.find(path_.string()), std::string::npos) << message;
      EXPECT_EQ(message.find('\n'), std::string::npos) << message;
      return message;
    }
    return "";
  }
  /// error_of_reading after a change to the file's tensors.
  std::string error_after(const std::function<void(TensorMap&)>& change) {
    write_token_shard(path_, some_shard(300), 300);
    auto file = read_safetensors(path_);
    change(file.tensors);
    write_safetensors(path_, file);
    return error_of_reading(300);
  }

  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "tokens-00000.safetensors";
};

TEST_F(TokenShards, RoundTripInTheSmallestType) {
  const std::vector<std::pair<int64_t, torch::ScalarType>> cases = {
      {1, torch::kUInt8},      {256, torch::kUInt8},   {257, torch::kUInt16},
      {65536, torch::kUInt16}, {65537, torch::kInt32}, {262144, torch::kInt32}};
  for (const auto& [codes, type] : cases) {
    const auto shard = some_shard(codes);
    write_token_shard(path_, shard, codes);
    EXPECT_EQ(read_safetensors(path_).tensors.at("tokens").scalar_type(), type) << codes;
    const auto back = read_token_shard(path_, codes);
    EXPECT_TRUE(at::equal(back.tokens, shard.tokens)) << codes;
    EXPECT_EQ(back.keys, shard.keys);
    EXPECT_EQ(back.classes, shard.classes);
  }
}

TEST_F(TokenShards, AShardWithoutImagesReadsBack) {
  write_token_shard(path_, some_shard(9, 0), 9);
  const auto back = read_token_shard(path_, 9);
  EXPECT_EQ(back.tokens.sizes(), (std::vector<int64_t>{0, 2, 5}));
  EXPECT_TRUE(back.keys.empty());
}

TEST_F(TokenShards, TokensHaveAnyShapeOfTheFormat) {
  for (const auto& shape :
       std::vector<std::vector<int64_t>>{{3, 7}, {3, 4, 2, 5}, {3, 2, 4, 2, 5}}) {
    auto shard = some_shard(300);
    shard.tokens = at::randint(0, 299, shape, at::kLong);
    write_token_shard(path_, shard, 300);
    EXPECT_TRUE(at::equal(read_token_shard(path_, 300).tokens, shard.tokens));
    shard.tokens.select(0, 1).flatten()[3] = 299;
    write_token_shard(path_, shard, 300);
    EXPECT_NE(error_of_reading(299).find("image 1 ("), std::string::npos);
  }
  EXPECT_NE(error_after([](TensorMap& t) {
              t["tokens"] = at::zeros({3}, at::kLong).to(at::kUInt16);
            }).find("1 dimensions, expected UInt16 and 2 to 5"),
            std::string::npos);
}

TEST_F(TokenShards, KeysMayNotContainZeroBytes) {
  auto shard = some_shard(9);
  shard.keys[1] = std::string("a\0b", 3);
  EXPECT_THROW(write_token_shard(path_, shard, 9), UserError);
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(TokenShards, AnIndexOutOfRangeIsRefused) {
  write_token_shard(path_, some_shard(300), 300);
  EXPECT_NE(error_of_reading(299).find("index 299, but the codes are 0 to 298"), std::string::npos);
  EXPECT_NE(error_of_reading(256), "");  // of another type
  auto shard = some_shard(70000);
  shard.tokens[1][1][4] = -1;
  write_token_shard(path_, shard, 70000);
  EXPECT_NE(error_of_reading(70000).find("index -1"), std::string::npos);
}

TEST_F(TokenShards, InvalidContentsAreRefused) {
  EXPECT_EQ(error_after([](TensorMap&) {}), "");
  for (const auto* name : {"tokens", "keys", "classes"}) {
    EXPECT_NE(error_after([&](TensorMap& t) { t.erase(name); }).find(name), std::string::npos);
    EXPECT_NE(error_after([&](TensorMap& t) {
                t[name] = at::zeros({2, 2});
              }).find(name),
              std::string::npos);
  }
  const auto no_key = [](TensorMap& t) { t["keys"] = t["keys"].slice(0, 0, 10).clone(); };
  EXPECT_NE(error_after(no_key).find("3 images have 1 keys"), std::string::npos);
  const auto empty_key = [](TensorMap& t) { t["keys"] = at::zeros({2}, at::kByte); };
  EXPECT_NE(error_after(empty_key).find("image 0 has no key"), std::string::npos);
  const auto no_class = [](TensorMap& t) { t["classes"] = at::zeros({2}, at::kLong); };
  EXPECT_NE(error_after(no_class).find("2 classes"), std::string::npos);
}

TEST_F(TokenShards, EveryPrefixIsRefused) {
  write_token_shard(path_, some_shard(300), 300);
  const auto whole = read_file(path_);
  for (size_t size = 0; size < whole.size(); size += 7) {
    write_file(path_, std::span(whole).first(size));
    EXPECT_NE(error_of_reading(300), "") << size;
  }
}

}  // namespace
}  // namespace nsvq
