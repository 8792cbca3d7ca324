// Tokens of several crops of an image and of several scales, through every command that has tokens.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "nsvq/core/temporary_folder.h"
#include "nsvq/data/images/transform.h"
#include "nsvq/data/sources/source.h"
#include "nsvq/io/files/file.h"
#include "nsvq/io/formats/safetensors.h"
#include "nsvq/io/images/image.h"
#include "nsvq/quantizers/members.h"
#include "nsvq/tokenizer/open_model.h"
#include "nsvq/tokens/token_manifest.h"
#include "nsvq/tokens/token_shard.h"
#include "tests/cli/model_file.h"
#include "tests/cli/run.h"
#include "tests/train/tiny.h"

namespace nsvq {
namespace {

namespace fs = std::filesystem;

class TokenFormat : public testing::Test {
 protected:
  void SetUp() override {
    auto config = tiny_config();
    config.train.precision = "fp32";
    write_model_file(plain_, config);
    config.quantizer.type = "var";
    config.quantizer.codes = 32;
    config.quantizer.of<VarConfig>().scales = {1, 3, 8};
    config.replacement.policy = "auto";
    write_model_file(var_, config);
  }

  Result tokenize(const std::string& model, const fs::path& out, std::vector<std::string> more = {},
                  const std::string& data = "builtin:dead-leaves?size=20&count=5") {
    std::vector<std::string> words = {"tokenize", model, "--data",       data, "--out",        out,
                                      "--device", "cpu", "--shard-size", "4",  "--batch-size", "4"};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  }
  Result detokenize(const std::string& model, const fs::path& tokens, const std::string& out) {
    return run(
        {"detokenize", model, "--tokens", tokens, "--out", folder_ / out, "--device", "cpu"});
  }
  torch::Tensor tokens(const fs::path& folder) {
    return at::cat({read_token_shard(folder / token_shard_name(0), 32).tokens,
                    read_token_shard(folder / token_shard_name(1), 32).tokens});
  }
  std::vector<std::byte> picture(const std::string& out, int number) {
    return read_file(folder_ / out / "dead-leaves" / fmt::format("{:06}.png", number));
  }
  /// Pictures of 16x16 cut from images of 17x17, as the centre crop of the source makes them.
  void write_windows(const fs::path& out, int top, int left, bool mirrored) {
    const auto source = open_source("builtin:dead-leaves?size=20&count=5");
    for (int64_t i = 0; i < source->size(); ++i) {
      auto planes = at::empty({3, 17, 17}, at::kByte);
      transform(source->load(i), {.size = 17}, 0,
                std::span(planes.data_ptr<uint8_t>(), planes.numel()));
      if (mirrored) planes = planes.flip({2});
      const auto window =
          planes.narrow(1, top, 16).narrow(2, left, 16).permute({1, 2, 0}).contiguous();
      const auto* bytes = window.const_data_ptr<uint8_t>();
      write_image(out / fmt::format("dead-leaves/{:06}.png", i),
                  {16, 16, {bytes, bytes + window.numel()}});
    }
  }

  TemporaryFolder folder_;
  std::string plain_ = folder_ / "plain.safetensors", var_ = folder_ / "var.safetensors";
};

TEST_F(TokenFormat, TenCropsHaveTheTokensOfEachCropByItself) {
  const auto all = folder_ / "ten";
  const auto done = tokenize(plain_, all, {"--crops", "ten", "--flip"});
  ASSERT_EQ(done.code, 0) << done.error;
  expect_contains(done.out, {"5 images of 10 times 8x8 tokens in 2 shards"});
  const auto settings = read_token_manifest(all).settings;
  EXPECT_EQ(settings.image_height, 16);
  ASSERT_EQ(settings.variants.size(), 10u);
  EXPECT_EQ(tokens(all).sizes(), at::IntArrayRef({5, 10, 8, 8}));
  struct Crop {
    int number, top, left;
    bool mirrored;
  };
  for (const auto& [number, top, left, mirrored] : {Crop{0, 0, 0, false},
                                                    {1, 0, 1, false},
                                                    {2, 1, 0, false},
                                                    {4, 0, 0, false},
                                                    {6, 0, 1, true},
                                                    {8, 1, 1, true}}) {
    SCOPED_TRACE(settings.variants[number]);
    const auto cut = folder_ / fmt::format("cut{}", number);
    write_windows(cut, top, left, mirrored);
    ASSERT_EQ(tokenize(plain_, folder_ / fmt::format("t{}", number), {}, cut).code, 0);
    EXPECT_TRUE(
        at::equal(tokens(all).select(1, number), tokens(folder_ / fmt::format("t{}", number))));
  }
  EXPECT_FALSE(at::equal(tokens(all).select(1, 0), tokens(all).select(1, 3)));

  EXPECT_EQ(run({"tokens", "verify", all}).code, 0);
  expect_contains(run({"info", all}).out, {"center of 17x17"});
  ASSERT_EQ(detokenize(plain_, all, "shown").code, 0);
  ASSERT_EQ(detokenize(plain_, folder_ / "t4", "centre").code, 0);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(picture("shown", i), picture("centre", i)) << i;
}

TEST_F(TokenFormat, VariantsResumeAndAreTheirOwnSettings) {
  const auto out = folder_ / "t";
  ASSERT_EQ(tokenize(plain_, out, {"--flip"}).code, 0);
  EXPECT_EQ(tokens(out).sizes(), at::IntArrayRef({5, 2, 8, 8}));
  const auto bytes = read_file(out / token_shard_name(1)),
             manifest = read_file(out / "manifest.json");
  fs::remove(out / token_shard_name(1));
  ASSERT_EQ(tokenize(plain_, out, {"--flip"}).code, 0);
  EXPECT_EQ(read_file(out / token_shard_name(1)), bytes);
  EXPECT_EQ(read_file(out / "manifest.json"), manifest);
  expect_failure(tokenize(plain_, out), 2, {"variants of images", "none here"});
  expect_failure(tokenize(plain_, out, {"--crops", "ten"}), 2,
                 {"variant 0 is 'top left of 17x17' here, 'unchanged' there"});
  expect_failure(tokenize(plain_, folder_ / "u", {"--crops", "nine"}), 2, {"--crops"});
}

TEST_F(TokenFormat, ScalesPassThroughEveryCommand) {
  const auto out = folder_ / "t";
  const auto done = tokenize(var_, out);
  ASSERT_EQ(done.code, 0) << done.error;
  expect_contains(done.out, {"5 images of 74 tokens at 3 scales in 2 shards"});
  const auto json = nlohmann::json::parse(read_text(out / "manifest.json"));
  EXPECT_EQ(json.at("version"), 2);
  EXPECT_EQ(json.at("grid"), nlohmann::json({8, 8}));
  EXPECT_EQ(json.at("grids"), nlohmann::json({{1, 1}, {3, 3}, {8, 8}}));
  const auto found = tokens(out);
  EXPECT_EQ(found.sizes(), at::IntArrayRef({5, 74}));
  EXPECT_GT(std::get<0>(at::_unique(found)).numel(), 3);
  EXPECT_EQ(run({"tokens", "verify", out}).code, 0);
  expect_contains(run({"info", out}).out, {"74"});
  expect_contains(run({"info", var_}).out, {"tokens_of_image 74"});

  ASSERT_EQ(detokenize(var_, out, "pictures").code, 0);
  write_safetensors(folder_ / "bare.safetensors", {{{"drawn", found}}, {}});
  ASSERT_EQ(detokenize(var_, folder_ / "bare.safetensors", "bare").code, 0);
  ASSERT_EQ(run({"reconstruct", var_, "--data", "builtin:dead-leaves?size=20&count=5", "--out",
                 folder_ / "images", "--device", "cpu", "--batch-size", "4"})
                .code,
            0);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(picture("pictures", i), read_file(folder_ / fmt::format("bare/{:06}.png", i)));
    EXPECT_EQ(picture("pictures", i), picture("images", i));
  }
  const auto evaluated =
      run({"eval", var_, "--data", "builtin:dead-leaves?size=16&count=5&seed=9", "--metrics",
           "psnr,utilisation", "--json", folder_ / "eval.json", "--device", "cpu"});
  ASSERT_EQ(evaluated.code, 0) << evaluated.error;
  EXPECT_GT(nlohmann::json::parse(read_text(folder_ / "eval.json")).at("utilisation").get<double>(),
            0);
}

TEST_F(TokenFormat, WhatDoesNotFitScalesIsRefused) {
  const auto out = folder_ / "t";
  ASSERT_EQ(tokenize(var_, out, {"--flip"}).code, 0);
  EXPECT_EQ(tokens(out).sizes(), at::IntArrayRef({5, 2, 74}));
  expect_failure(detokenize(plain_, out, "x"), 2, {"74 tokens at 3 scales", "8x8 tokens"});
  ASSERT_EQ(tokenize(plain_, folder_ / "p").code, 0);
  expect_failure(detokenize(var_, folder_ / "p", "x"), 2, {"8x8 tokens", "74 tokens at 3 scales"});
  expect_failure(tokenize(var_, folder_ / "u", {"--crop", "16x24"}), 2,
                 {"quantizer.var.scales end with grids of 8x8", "8x12"});
  const auto bare = [&](const torch::Tensor& drawn) {
    write_safetensors(folder_ / "bare.safetensors", {{{"drawn", drawn}}, {}});
    return detokenize(var_, folder_ / "bare.safetensors", "x");
  };
  expect_failure(bare(at::zeros({2, 8, 8}, at::kLong)), 2, {"[2, 8, 8]", "[n, 74]"});
  auto wrong = at::zeros({2, 74}, at::kLong);
  wrong[1][70] = 32;
  expect_failure(bare(wrong), 2, {"image 1, token 70 has the index 32"});
  const auto text = [&] { return read_text(out / "manifest.json"); };
  auto grouped = nlohmann::json::parse(text());
  grouped["groups"] = 2;
  write_text(out / "manifest.json", grouped.dump());
  expect_failure(detokenize(var_, out, "x"), 2, {"codes in 2 groups"});
  write_text(folder_ / "recipe.yaml", to_yaml(load_model(var_).config));
  for (const std::string command : {"train", "config"}) {
    std::vector<std::string> words = {command, folder_ / "recipe.yaml"};
    if (command == "train") words.insert(words.end(), {"--run", folder_ / "run"});
    const auto refused = run(words);
    EXPECT_EQ(refused.code, 2);
    expect_contains(refused.error, {"quantizer.type: var", "nsvq does not train"});
  }
  EXPECT_FALSE(fs::exists(folder_ / "run"));
}

}  // namespace
}  // namespace nsvq
