#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "nsvq/core/temporary_folder.h"
#include "nsvq/io/files/file.h"
#include "nsvq/tokens/token_shard.h"
#include "nsvq/tokens/token_work.h"
#include "tests/cli/model_file.h"
#include "tests/cli/run.h"
#include "tests/train/tiny.h"

namespace nsvq {
namespace {

namespace fs = std::filesystem;

class TokensCommand : public testing::Test {
 protected:
  void SetUp() override { write_model_file(model_, tiny_config()); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  /// Tokens of the images in a folder, or of so many drawn ones.
  Result tokenize(const std::string& out, const std::string& images,
                  const std::vector<std::string>& more = {}) const {
    const auto data =
        images.starts_with('/') ? images : "builtin:dead-leaves?size=16&count=" + images;
    std::vector<std::string> words = {"tokenize", model_,         "--data", data,           "--out",
                                      path(out),  "--shard-size", "4",      "--batch-size", "2"};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  }

  TemporaryFolder folder_;
  std::string model_ = path("model.safetensors");
};

TEST_F(TokensCommand, VerifyNamesWhatIsWrong) {
  ASSERT_EQ(tokenize("t", "10").code, 0);
  const auto sound = run({"tokens", "verify", path("t")});
  EXPECT_EQ(sound.code, 0) << sound.error;
  expect_contains(sound.out, {"complete and sound", "10 images in 3 shards"});

  const auto bytes = read_file(folder_ / "t" / token_shard_name(1));
  write_file(folder_ / "t" / token_shard_name(1), std::span(bytes).first(bytes.size() / 2));
  fs::remove(folder_ / "t" / token_shard_name(2));
  const auto damaged = run({"tokens", "verify", path("t")});
  expect_failure(damaged, 2, {path("t"), "2 problems"});
  expect_contains(damaged.out, {token_shard_name(1) + " has ",
                                token_shard_name(2) + " is missing; `nsvq tokenize`"});

  const auto as_json = run({"tokens", "verify", path("t"), "--json", "-"});
  EXPECT_EQ(as_json.code, 2);
  const auto json = nlohmann::json::parse(as_json.out);
  EXPECT_EQ(json.at("sound"), false);
  EXPECT_EQ(json.at("shards"), 3);
  ASSERT_EQ(json.at("problems").size(), 2u);
  EXPECT_EQ(json.at("problems")[1].at("file"), token_shard_name(2));

  ASSERT_EQ(tokenize("t", "10").code, 0);
  EXPECT_EQ(run({"tokens", "verify", path("t")}).code, 0);
  expect_failure(run({"tokens", "verify", path("none")}), 2, {"none: no such folder"});
}

TEST_F(TokensCommand, VerifyFindsAManifestThatWasCutShort) {
  ASSERT_EQ(tokenize("t", "10").code, 0);
  auto manifest = read_token_manifest(folder_ / "t");
  manifest.shards.pop_back();
  manifest.settings.images = 8;
  write_token_manifest(folder_ / "t", manifest);
  const auto result = run({"tokens", "verify", path("t")});
  expect_failure(result, 2, {path("t"), "1 problem"});
  expect_contains(result.out, {token_shard_name(2) + ": not in the manifest"});
  expect_failure(run({"detokenize", model_, "--tokens", path("t"), "--out", path("pictures")}), 2,
                 {token_shard_name(2), "not in the manifest"});

  const auto text = read_text(folder_ / "t/manifest.json");
  expect_failure(run({"tokens", "verify", path("t"), "--json", path("t/manifest.json")}), 2,
                 {"--json", "exists"});
  EXPECT_EQ(read_text(folder_ / "t/manifest.json"), text);
}

TEST_F(TokensCommand, VerifyOfAnUnfinishedFolder) {
  ASSERT_EQ(tokenize("t", "10").code, 0);
  auto manifest = read_token_manifest(folder_ / "t");
  write_shard_record(shard_record_path(folder_ / "t", 0), manifest.shards[0]);
  manifest.complete = false;
  manifest.shards.clear();
  write_token_manifest(folder_ / "t", manifest);
  const auto result = run({"tokens", "verify", path("t")});
  expect_failure(result, 2, {"2 problems"});
  expect_contains(result.out, {token_shard_name(1) + ": has not been written yet"});
  const auto info = run({"info", path("t"), "--json", "-"});
  EXPECT_EQ(nlohmann::json::parse(info.out).at("shards"), 1);
}

TEST_F(TokensCommand, PartsOfTheWork) {
  ASSERT_EQ(tokenize("t", "10", {"--part", "2/3"}).code, 0);  // alone, it makes all
  EXPECT_TRUE(read_token_manifest(folder_ / "t").complete);
  expect_failure(tokenize("u", "10", {"--part", "0/4"}), 2, {"--part", "0/4"});
  expect_failure(tokenize("u", "10", {"--part", "5/4"}), 2, {"--part", "5/4"});
  expect_failure(tokenize("u", "10", {"--part", "x"}), 2, {"--part", "'x'"});
  expect_failure(tokenize("u", "10", {"--claim-timeout", "0"}), 2, {"--claim-timeout"});
  EXPECT_FALSE(fs::exists(folder_ / "u"));
}

}  // namespace
}  // namespace nsvq
