// Tokens that a generator learns, from folders and from files of other programs.

#include "nsvq/generation/tokens/token_set.h"

#include <gtest/gtest.h>

#include "nsvq/io/formats/safetensors.h"
#include "nsvq/runs/layout/layout.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/generation/tiny_generation.h"

namespace nsvq {
namespace {

namespace fs = std::filesystem;

class TokenSets : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  std::string grids(std::vector<int64_t> shape, int64_t codes = 64) const {
    return write_npy(
        path("grids.npy"),
        at::arange(at::prod(at::tensor(shape)).item<int64_t>()).remainder(codes).view(shape));
  }
  TokenCodec codec(const std::string& quantizer = "vq") const {
    const auto file = write_tiny_tokenizer(folder_.path(), tiny_tokenizer_config(quantizer));
    return TokenCodec(load_frozen_tokenizer(file.string(), "generator.tokenizer"), at::kCPU);
  }
  static std::string error(const TokenFiles& files, const TokenCodec* codec = nullptr) {
    return error_of([&] { read_token_set(files, codec); });
  }

  TemporaryFolder folder_;
};

TEST_F(TokenSets, AFileHasGridsOrRows) {
  const auto set = read_token_set({"key", grids({3, 2, 5}), ""}, nullptr);
  EXPECT_EQ(set.images.data.sizes(), at::IntArrayRef({3, 2, 5}));
  EXPECT_EQ(set.images.data[2][1][4].item<int64_t>(), 29);
  EXPECT_EQ(set.codes, 0);
  EXPECT_EQ(set.images.classes, std::vector<int64_t>(3, -1));
  const auto rows = read_token_set({"key", grids({3, 16}), ""}, nullptr);
  EXPECT_EQ(rows.images.data.sizes(), at::IntArrayRef({3, 1, 16}));
  const auto tokenizer = codec();
  const auto squares = read_token_set({"key", grids({3, 16}), ""}, &tokenizer);
  EXPECT_EQ(squares.images.data.sizes(), at::IntArrayRef({3, 4, 4}));
  expect_contains(error({"key", grids({3, 15}), ""}, &tokenizer), {"key: ", "15 tokens", "4x4"});
}

TEST_F(TokenSets, ClassesStandInTheirFileOrBesideTheTokens) {
  const auto tokens = grids({3, 16});
  const std::vector<int64_t> known = {2, 0, 1};
  write_text(path("classes.txt"), "2\n0\n1\n");
  const auto array = write_npy(path("classes.npy"), at::tensor(known));
  for (const auto& file : {path("classes.txt"), array}) {
    EXPECT_EQ(read_token_set({"key", tokens, file}, nullptr).images.classes, known) << file;
  }
  const auto both = path("both.safetensors");
  write_safetensors(
      both, {{{"tokens", at::zeros({3, 4, 4}, at::kInt)}, {"classes", at::tensor(known)}}, {}});
  EXPECT_EQ(read_token_set({"key", both, ""}, nullptr).images.classes, known);
  write_text(path("classes.txt"), "2\ncat\n1\n");
  expect_contains(error({"key", tokens, path("classes.txt")}), {"classes.txt", "line 2", "'cat'"});
  write_text(path("classes.txt"), "2\n1\n");
  expect_contains(error({"key", tokens, path("classes.txt")}), {"2 classes for 3 images"});
}

TEST_F(TokenSets, WhatIsNoGridOfTokensIsNamed) {
  expect_contains(error({"key", grids({12}), ""}), {"key: ", "shape [12]", "[n, h, w]"});
  expect_contains(error({"key", grids({0, 4, 4}), ""}), {"holds no tokens"});
  expect_contains(error({"key", path("missing.npy"), ""}), {"key: ", "missing.npy"});
  write_text(path("notes.txt"), "1 2 3");
  expect_contains(error({"key", path("notes.txt"), ""}), {"notes.txt: neither", ".npy"});
  const auto negative = write_npy(path("negative.npy"), at::tensor({0, -1}).view({1, 2}));
  expect_contains(error({"key", negative, ""}), {"negative.npy", "-1"});
  write_text(path("cut.npy"), read_text(grids({3, 16})).substr(0, 150));
  expect_contains(error({"key", path("cut.npy"), ""}), {"cut.npy"});
}

TEST_F(TokenSets, TheNumberOfCodesComesFromTheFirstThatKnows) {
  GenerationConfig config;
  const TokenFiles files{"key", grids({3, 16}, 40), ""};
  const auto tokenizer = codec();
  const auto set = read_token_set(files, &tokenizer);
  EXPECT_EQ(grid_of(set, config, files, &tokenizer).codes, 64);
  EXPECT_EQ(grid_of(set, config, files, nullptr).codes, 40);
  config.codes = 50;
  EXPECT_EQ(grid_of(set, config, files, nullptr).codes, 50);
  expect_contains(error_of([&] { grid_of(set, config, files, &tokenizer); }),
                  {"generator.codes is 50", "64 codes"});
  config.codes = 39;
  expect_contains(error_of([&] { grid_of(set, config, files, nullptr); }),
                  {"the token 39", "39 codes"});
  expect_contains(error_of([&] {
                    require_grid(set, {4, 5, 64}, files, "another");
                  }),
                  {"4x4", "another", "4x5"});
}

TEST_F(TokenSets, AFolderIsCheckedWithAndWithoutItsTokenizer) {
  const auto file = write_tiny_tokenizer(folder_.path());
  const auto folder =
      write_token_folder(path("tokens"), file, "builtin:dead-leaves?size=16&count=9");
  const auto tokenizer = codec();
  const auto known = read_token_set({"key", folder, ""}, &tokenizer);
  EXPECT_EQ(known.images.data.sizes(), at::IntArrayRef({9, 4, 4}));
  EXPECT_EQ(known.codes, 64);
  EXPECT_TRUE(
      at::equal(read_token_set({"key", folder, ""}, nullptr).images.data, known.images.data));
  expect_contains(error({"key", folder, path("classes.txt")}), {"its own classes"});

  auto other = tiny_tokenizer_config();
  other.seed = 5;
  const auto stranger = TokenCodec(
      load_frozen_tokenizer(write_tiny_tokenizer(folder_.path(), other).string(), ""), at::kCPU);
  expect_contains(error({"key", folder, ""}, &stranger), {"key: ", "tokens of another model"});

  auto manifest = read_token_manifest(folder);
  manifest.complete = false;
  write_token_manifest(folder, manifest);
  expect_contains(error({"key", folder, ""}), {"incomplete"});
  expect_contains(error({"key", folder, ""}, &tokenizer), {"incomplete"});
}

TEST_F(TokenSets, ATokenizerWithoutTokensIsRefused) {
  expect_contains(error_of([&] { codec("none"); }), {"a continuous autoencoder"});
}

/// Each seed takes one of the variants of its image, and all are taken.
TEST_F(TokenSets, AVariantIsDrawnBySeed) {
  const auto tokens = at::arange(100 * 3).view({100, 3, 1, 1}).expand({100, 3, 2, 2});
  const auto seeds = at::arange(100);
  const auto drawn = drawn_variant(tokens, seeds);
  EXPECT_EQ(drawn.sizes(), at::IntArrayRef({100, 2, 2}));
  const auto chosen = drawn.select(1, 0).select(1, 0);
  EXPECT_TRUE(at::equal(chosen.div(3, "floor"), seeds));
  EXPECT_EQ(chosen.remainder(3).bincount().gt(15).sum().item<int64_t>(), 3);
  EXPECT_TRUE(at::equal(drawn_variant(tokens.narrow(0, 7, 1), seeds.narrow(0, 7, 1)),
                        drawn.narrow(0, 7, 1)));
  EXPECT_TRUE(at::equal(drawn_variant(drawn, seeds), drawn));
}

}  // namespace
}  // namespace nsvq
