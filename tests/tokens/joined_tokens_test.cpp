#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "nsvq/core/temporary_folder.h"
#include "nsvq/tokens/detokenize.h"
#include "nsvq/tokens/token_check.h"
#include "tests/error_of.h"
#include "tests/tokens/small_tokens.h"

// A folder that `nsvq tokens merge` of an earlier version joined from two (stored/README.md).

namespace nsvq {
namespace {

namespace fs = std::filesystem;

const fs::path kJoined = fs::path(NSVQ_TESTS_DIR) / "stored/joined";
const fs::path kModel =
    fs::path(NSVQ_TESTS_DIR).parent_path() / "tokenizer/stored/format-1-cvq/model.safetensors";

TEST(JoinedTokens, OpenAndVerify) {
  const auto manifest = read_token_manifest(kJoined);
  EXPECT_TRUE(manifest.complete);
  EXPECT_EQ(manifest.settings.images, 6);
  ASSERT_EQ(manifest.joined.size(), 2u);
  EXPECT_EQ(manifest.joined[1].images, 3);
  EXPECT_TRUE(check_tokens(kJoined, manifest).empty());
  const TemporaryFolder folder;
  write_token_manifest(folder.path(), manifest);
  EXPECT_EQ(read_token_manifest(folder.path()), manifest);
}

TEST(JoinedTokens, DamageIsFound) {
  const TemporaryFolder folder;
  const auto copy = folder / "tokens";
  fs::copy(kJoined, copy);
  write_text(copy / token_shard_name(2), "x");
  auto manifest = read_token_manifest(copy);
  ASSERT_EQ(check_tokens(copy, manifest).size(), 1u);
  manifest.shards[1].images = 2;  // a whole shard's, but the first source ends within it
  EXPECT_EQ(check_tokens(copy, manifest).size(), 2u);
}

TEST(JoinedTokens, AreNoFolderToTokenizeInto) {
  const TemporaryFolder folder;
  fs::copy(kJoined, folder / "tokens");
  auto settings = read_token_manifest(kJoined).settings;
  settings.keys_sha256 = std::string(64, 'b');
  const auto error = error_of([&] { make_tokens(folder / "tokens", settings); });
  EXPECT_NE(error.find("names of images"), std::string::npos) << error;
}

TEST(JoinedTokens, Detokenize) {
  InferenceSession session(kModel, "cpu");
  const auto manifest = open_tokens(kJoined, session.tokenizer(), /*force=*/false);
  std::vector<std::string> keys;
  detokenize(session, kJoined, manifest, 2, 0,
             [&](const torch::Tensor& images, const std::vector<std::string>& names) {
               EXPECT_EQ(images.sizes(), at::IntArrayRef({std::ssize(names), 3, 16, 16}));
               keys.insert(keys.end(), names.begin(), names.end());
             });
  const std::vector<std::string> one = {"dead-leaves/000000", "dead-leaves/000001",
                                        "dead-leaves/000002"};
  auto twice = one;
  twice.insert(twice.end(), one.begin(), one.end());
  EXPECT_EQ(keys, twice);
}

}  // namespace
}  // namespace nsvq
