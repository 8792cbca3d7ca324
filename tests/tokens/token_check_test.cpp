#include "nsvq/tokens/token_check.h"

#include <gtest/gtest.h>

#include "nsvq/core/temporary_folder.h"
#include "nsvq/io/files/file.h"
#include "tests/error_of.h"
#include "tests/tokens/small_tokens.h"

namespace nsvq {
namespace {

namespace fs = std::filesystem;

/// The problems, each as "file: rest of the line behind the folder's name".
std::vector<std::string> problems_of(const fs::path& folder, const TokenManifest& manifest) {
  std::vector<std::string> lines;
  for (const auto& [file, what] : check_tokens(folder, manifest)) {
    EXPECT_TRUE(what.starts_with((folder / file).string())) << what;
    EXPECT_EQ(what.find('\n'), std::string::npos) << what;
    lines.push_back(file + what.substr((folder / file).string().size()));
  }
  return lines;
}

void expect_problem(const fs::path& folder, const TokenManifest& manifest,
                    const std::string& wanted) {
  const auto problems = problems_of(folder, manifest);
  ASSERT_EQ(problems.size(), 1u) << wanted;
  EXPECT_NE(problems[0].find(wanted), std::string::npos) << problems[0];
}

TEST(TokenCheck, ShardsAreKnownByTheirBytes) {
  const TemporaryFolder folder;
  write_text(folder / "x", "hello");
  const auto record = describe_shard(folder / "x");
  EXPECT_EQ(record.sha256, "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824");
  EXPECT_EQ(damage_of_shard(folder.path(), record), std::nullopt);
  write_text(folder / "x", "hellO");
  EXPECT_EQ(damage_of_shard(folder.path(), record), "does not hold what was written");
  write_text(folder / "x", "hell");
  EXPECT_EQ(damage_of_shard(folder.path(), record), "has 4 bytes where 5 were written");
  std::filesystem::remove(folder / "x");
  EXPECT_EQ(damage_of_shard(folder.path(), record), "is missing");
}

TEST(TokenCheck, NamesEachShardThatIsMissingOrDamaged) {
  const TemporaryFolder folder;
  const auto manifest = make_tokens(folder.path(), small_settings(11));
  EXPECT_EQ(problems_of(folder.path(), manifest), std::vector<std::string>{});
  write_text(folder / token_shard_name(1), "x");
  fs::remove(folder / token_shard_name(4));
  const auto problems = problems_of(folder.path(), manifest);
  ASSERT_EQ(problems.size(), 2u);
  EXPECT_TRUE(problems[0].starts_with("tokens-00001.safetensors has 1 bytes")) << problems[0];
  EXPECT_TRUE(problems[1].starts_with("tokens-00004.safetensors is missing")) << problems[1];
}

TEST(TokenCheck, NamesShardsThatTheManifestDoesNotHave) {
  const TemporaryFolder folder;
  auto manifest = make_tokens(folder.path(), small_settings(11));
  manifest.shards.pop_back();
  manifest.settings.images = 10;
  expect_problem(folder.path(), manifest, "tokens-00005.safetensors: not in the manifest");
  manifest.complete = false;
  expect_problem(folder.path(), manifest, "tokens-00005.safetensors: not in the manifest");
  manifest.complete = true;
  fs::remove(folder / token_shard_name(5));
  write_text(folder / "tokens-5.safetensors", "of somebody else");
  write_text(folder / ".tokens-00005.safetensors.tmp-1-0", "unfinished");
  EXPECT_EQ(problems_of(folder.path(), manifest), std::vector<std::string>{});
}

TEST(TokenCheck, LooksBeyondTheChecksum) {
  const TemporaryFolder folder;
  const auto sound = make_tokens(folder.path(), small_settings(3));
  auto manifest = sound;
  const auto rewrite = [&](const TokenShard& shard) {
    write_token_shard(folder / token_shard_name(1), shard, 300);
    manifest = sound;
    auto& record = manifest.shards[1];
    const auto images = record.images;
    record = describe_shard(folder / record.file);
    record.images = images;
  };
  const auto tokens = torch::zeros({1, 2, 3}, torch::kInt64);
  rewrite({tokens + 300, {-1}, {"2.png"}});
  expect_problem(folder.path(), manifest, "has the index 300");
  rewrite({torch::zeros({1, 3, 2}, torch::kInt64), {-1}, {"2.png"}});
  expect_problem(folder.path(), manifest, "[1, 3, 2]");
  rewrite({torch::zeros({2, 2, 3}, torch::kInt64), {-1, -1}, {"2.png", "3.png"}});
  expect_problem(folder.path(), manifest, "[2, 2, 3]");
  manifest.shards[1].images = 2;
  expect_problem(folder.path(), manifest, "where the source has 1");
  rewrite({tokens, {7}, {"2.png"}});
  EXPECT_EQ(problems_of(folder.path(), manifest), std::vector<std::string>{});
  manifest.settings.classes = {"bee", "cat"};
  expect_problem(folder.path(), manifest, "class 7");
}

TEST(TokenCheck, ShardsHaveTheShapeOfTheManifest) {
  const TemporaryFolder folder;
  auto settings = small_settings(2);
  settings.scales = {{1, 1}, {2, 3}};
  settings.variants = {"left", "right"};
  auto tokens = small_folder(folder.path(), settings);
  const TokenShard shard{torch::arange(28).view({2, 2, 7}), {-1, -1}, {"0.png", "1.png"}};
  while (const auto task = tokens.take()) tokens.add(*task, shard, {});
  const auto manifest = tokens.finish();
  EXPECT_EQ(problems_of(folder.path(), manifest), std::vector<std::string>{});
  const auto all = read_all_tokens(folder.path(), manifest);
  EXPECT_TRUE(at::equal(all.tokens.to(at::kLong), shard.tokens));
  auto other = manifest;
  other.settings.groups = 2;
  expect_problem(folder.path(), other, "tokens [2, 2, 7], but the manifest says [2, 2, 2, 7]");
  other.settings = small_settings(2);
  expect_problem(folder.path(), other, "tokens [2, 2, 7], but the manifest says [2, 2, 3]");
}

TEST(TokenCheck, ComparesTheListOfShardsWithTheImages) {
  const TemporaryFolder folder;
  const auto sound = make_tokens(folder.path(), small_settings(5));
  auto manifest = sound;
  manifest.complete = false;
  expect_problem(folder.path(), manifest, "not marked as complete");
  manifest.shards.pop_back();
  expect_problem(folder.path(), manifest, "has not been written yet");
  manifest = sound;
  manifest.shards.push_back(sound.shards[0]);
  expect_problem(folder.path(), manifest, "twice");
  manifest.shards.back().file = "tokens-00003.safetensors";
  expect_problem(folder.path(), manifest, "in other shards");
}

TEST(TokenCheck, AManifestThatPromisesTooMuchTakesNoMemory) {
  const TemporaryFolder folder;
  auto manifest = make_tokens(folder.path(), small_settings(5));
  manifest.settings.images = INT64_MAX;
  const auto problems = problems_of(folder.path(), manifest);
  ASSERT_EQ(problems.size(), 102u) << "one shard too short, a hundred unwritten, the others";
  EXPECT_NE(problems.back().find("more shards"), std::string::npos) << problems.back();
  manifest.joined = {{"a", INT64_MAX, ""}, {"b", INT64_MAX, ""}};
  write_token_manifest(folder.path(), manifest);
  EXPECT_NE(error_of([&] { read_token_manifest(folder.path()); }).find("images of data.joined"),
            std::string::npos);
}

}  // namespace
}  // namespace nsvq
