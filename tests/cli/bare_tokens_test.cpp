// `nsvq detokenize` of tokens without a manifest, and the sizes of shards.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <numeric>

#include "nsvq/core/temporary_folder.h"
#include "nsvq/io/files/file.h"
#include "nsvq/io/formats/safetensors.h"
#include "nsvq/tokens/token_manifest.h"
#include "tests/cli/model_file.h"
#include "tests/cli/run.h"
#include "tests/train/tiny.h"

namespace nsvq {
namespace {

namespace fs = std::filesystem;

class BareTokens : public testing::Test {
 protected:
  void SetUp() override {
    write_model_file(model_, tiny_config());
    tokens_ = torch::arange(3 * 64, torch::kInt64).remainder(32).view({3, 8, 8});
  }

  /// A .npy file, as numpy.save writes it.
  std::string write_npy(const std::string& name, const torch::Tensor& tokens,
                        const std::string& shape, const std::string& type = "<i8") {
    auto dict = "{'descr': '" + type + "', 'fortran_order': False, 'shape': " + shape + ", }";
    dict.resize(117, ' ');
    dict += '\n';
    std::string text("\x93NUMPY\x01\x00", 8);
    text += {static_cast<char>(dict.size()), 0};
    text += dict;
    text.append(static_cast<const char*>(tokens.data_ptr()), tokens.nbytes());
    write_text(folder_ / name, text);
    return folder_ / name;
  }
  std::string write_tensor(const std::string& name, const torch::Tensor& tokens) {
    write_safetensors(folder_ / name, {{{"drawn", tokens}}, {}});
    return folder_ / name;
  }
  Result detokenize(const std::string& tokens, const std::string& out) {
    return run({"detokenize", model_, "--tokens", tokens, "--out", folder_ / out});
  }
  std::vector<std::byte> picture(const std::string& out, const std::string& name) {
    return read_file(folder_ / out / name);
  }

  TemporaryFolder folder_;
  std::string model_ = folder_ / "model.safetensors";
  torch::Tensor tokens_;
};

TEST_F(BareTokens, OfEveryFormGiveTheSamePictures) {
  const auto npy = detokenize(write_npy("t.npy", tokens_, "(3, 8, 8)"), "npy");
  ASSERT_EQ(npy.code, 0) << npy.error;
  EXPECT_EQ(detokenize(write_npy("flat.npy", tokens_, "(3, 64)"), "flat").code, 0);
  EXPECT_EQ(detokenize(write_tensor("t.safetensors", tokens_.to(torch::kUInt8)), "tensor").code, 0);
  const auto raw = tokens_.to(torch::kInt32);
  write_text(folder_ / "raw", {static_cast<const char*>(raw.data_ptr()), raw.nbytes()});
  const auto command =
      fmt::format("'{}' detokenize '{}' --tokens - --out '{}' <'{}' 2>/dev/null >&2", NSVQ_PROGRAM,
                  model_, (folder_ / "raw_out").string(), (folder_ / "raw").string());
  EXPECT_EQ(WEXITSTATUS(std::system(command.c_str())), 0);
  for (const std::string name : {"000000.png", "000001.png", "000002.png"}) {
    for (const std::string out : {"flat", "tensor", "raw_out"}) {
      EXPECT_EQ(picture(out, name), picture("npy", name)) << out << " " << name;
    }
  }
}

TEST_F(BareTokens, AreIntegersOfAnyType) {
  ASSERT_EQ(detokenize(write_npy("t.npy", tokens_, "(3, 8, 8)"), "expected").code, 0);
  const std::vector<std::pair<std::string, torch::ScalarType>> types = {
      {"<i4", torch::kInt32},  {"<i2", torch::kInt16},  {"|i1", torch::kInt8},
      {"|u1", torch::kUInt8},  {"<u2", torch::kUInt16}, {"<u4", torch::kUInt32},
      {"<u8", torch::kUInt64},
  };
  for (const auto& [name, type] : types) {
    const auto out = name.substr(1), tensor_out = out + "-tensor";
    const auto npy = write_npy(out + ".npy", tokens_.to(type), "(3, 8, 8)", name);
    const auto result = detokenize(npy, out);
    ASSERT_EQ(result.code, 0) << name << ": " << result.error;
    EXPECT_EQ(picture(out, "000002.png"), picture("expected", "000002.png")) << name;
    const auto tensor =
        detokenize(write_tensor(out + ".safetensors", tokens_.to(type)), tensor_out);
    ASSERT_EQ(tensor.code, 0) << name << ": " << tensor.error;
    EXPECT_EQ(picture(tensor_out, "000002.png"), picture("expected", "000002.png")) << name;
  }
  tokens_[0][0][1] = -1;
  expect_failure(detokenize(write_npy("u8.npy", tokens_, "(3, 8, 8)", "<u8"), "out"), 2,
                 {"column 1", "18446744073709551615"});
  expect_failure(detokenize(write_npy("f8.npy", tokens_, "(3, 8, 8)", "<f8"), "out"), 2,
                 {"f8.npy: an array of type '<f8', expected little-endian integers"});
}

TEST_F(BareTokens, OutOfRangeAreNamedByTheirPlace) {
  tokens_[2][5][3] = 32;
  expect_failure(detokenize(write_tensor("t.safetensors", tokens_), "out"), 2,
                 {"t.safetensors", "image 2, row 5, column 3", "32", "0 to 31"});
  tokens_[1][0][7] = -1;
  expect_failure(detokenize(write_npy("t.npy", tokens_, "(3, 8, 8)"), "out"), 2,
                 {"image 1, row 0, column 7", "-1"});
  EXPECT_FALSE(fs::exists(folder_ / "out"));
}

TEST_F(BareTokens, OfOtherShapesOrTypesAreRefused) {
  expect_failure(detokenize(write_tensor("a.safetensors", tokens_.view({3, 4, 4, 4})), "out"), 2,
                 {"[3, 4, 4, 4]", "[n, h, w]"});
  expect_failure(detokenize(write_tensor("b.safetensors", tokens_.view({6, 32})), "out"), 2,
                 {"[6, 32]", "[n, 64]"});
  expect_failure(detokenize(write_tensor("c.safetensors", tokens_.to(torch::kFloat)), "out"), 2,
                 {"0 tensors of integers"});
  write_text(folder_ / "d.npy", "not an array");
  expect_failure(detokenize(folder_ / "d.npy", "out"), 2, {"d.npy"});
}

TEST_F(BareTokens, ForPicturesBeyondTheLimitsAreRefused) {
  const auto grid = [](int64_t height, int64_t width) {
    return torch::zeros({1, height, width}, torch::kUInt8);
  };
  expect_failure(detokenize(write_tensor("area.safetensors", grid(8000, 8000)), "out"), 2,
                 {"area.safetensors: tokens for pictures of 16000 x 16000 pixels", "134217728"});
  expect_failure(detokenize(write_tensor("side.safetensors", grid(1, 32751)), "out"), 2,
                 {"side.safetensors", "65502 x 2 pixels", "65500 a side"});
  EXPECT_FALSE(fs::exists(folder_ / "out"));
}

TEST_F(BareTokens, AShardSizeIsKeptOrTheRoundingSaid) {
  const auto tokenize = [&](const std::string& out, std::vector<std::string> more) {
    std::vector<std::string> words = {"tokenize", model_,
                                      "--data",   "builtin:dead-leaves?size=16&count=7",
                                      "--out",    folder_ / out};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  };
  const auto kept = tokenize("a", {"--shard-size", "3"});
  ASSERT_EQ(kept.code, 0) << kept.error;
  EXPECT_EQ(read_token_manifest(folder_ / "a").settings.shard_size, 3);
  EXPECT_EQ(kept.error.find("--shard-size"), std::string::npos);
  const auto rounded = tokenize("b", {"--shard-size", "3", "--batch-size", "2"});
  EXPECT_EQ(read_token_manifest(folder_ / "b").settings.shard_size, 4);
  expect_contains(rounded.error, {"--shard-size 3: shards hold 4 images, whole batches of 2"});
}

}  // namespace
}  // namespace nsvq
