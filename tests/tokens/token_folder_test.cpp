#include "nsvq/tokens/token_folder.h"

#include <gtest/gtest.h>

#include <optional>

#include "nsvq/core/temporary_folder.h"
#include "nsvq/tokens/token_work.h"
#include "tests/error_of.h"
#include "tests/tokens/small_tokens.h"

namespace nsvq {
namespace {

namespace fs = std::filesystem;

class TokenFolders : public testing::Test {
 protected:
  void SetUp() override { make_tokens(whole_, settings_); }
  TokenFolder worker(int64_t part = 1, int64_t parts = 1) const {
    return small_folder(out_, settings_, {part, parts});
  }
  void make_old(const fs::path& file) const {
    fs::last_write_time(file, fs::last_write_time(file) - std::chrono::hours(1));
  }
  void expect_whole() const { EXPECT_TRUE(bytes_below(out_) == bytes_below(whole_)); }

  TemporaryFolder folder_;
  TokenSettings settings_ = small_settings(11);  // 6 shards
  fs::path whole_ = folder_ / "whole", out_ = folder_ / "out";
};

TEST_F(TokenFolders, AWorkerBeginsWithItsPartAndHelpsWithTheOthers) {
  const auto order_of = [&](int64_t part, int64_t parts) {
    fs::remove_all(out_);
    auto folder = worker(part, parts);
    std::vector<ShardTask> tasks;
    std::vector<int64_t> numbers;
    while (auto task = folder.take()) {
      numbers.push_back(task->number);
      tasks.push_back(std::move(*task));
    }
    EXPECT_FALSE(folder.finished());
    return numbers;
  };
  using Numbers = std::vector<int64_t>;
  EXPECT_EQ(order_of(1, 1), (Numbers{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(order_of(1, 3), (Numbers{0, 1, 3, 2, 5, 4}));
  EXPECT_EQ(order_of(2, 3), (Numbers{2, 3, 5, 4, 1, 0}));
  for (const int64_t part : {1, 4, 7, 10}) {  // more parts than shards
    auto numbers = order_of(part, 10);
    std::sort(numbers.begin(), numbers.end());
    EXPECT_EQ(numbers, (Numbers{0, 1, 2, 3, 4, 5}));
  }
}

TEST_F(TokenFolders, ThreeWorkersWriteWhatOneWrites) {
  auto a = worker(1, 3), b = worker(2, 3), c = worker(3, 3);
  for (auto* folder : {&a, &b, &c, &b, &b, &c}) {
    const auto task = folder->take();
    ASSERT_TRUE(task);
    make_shard(*folder, *task);
  }
  for (auto* folder : {&a, &b, &c}) {
    EXPECT_FALSE(folder->take());
    EXPECT_TRUE(folder->finished());
    EXPECT_EQ(folder->images_done(), 11);
    EXPECT_TRUE(folder->finish().complete);
    expect_whole();
  }
}

TEST_F(TokenFolders, WhatIsRecordedCountsBeforeTheManifestHasIt) {
  auto folder = worker();
  for (int i = 0; i < 2; ++i) make_shard(folder, *folder.take());
  EXPECT_EQ(read_token_manifest(out_).shards.size(), 0u);
  EXPECT_EQ(read_token_progress(out_).shards.size(), 2u);
  EXPECT_FALSE(read_token_progress(out_).complete);
}

TEST_F(TokenFolders, AnAbandonedClaimIsTakenOver) {
  auto folder = worker();
  const auto claim = shard_claim_path(out_, 3);
  write_text(claim, R"({"host":"elsewhere","pid":1,"machine":"another","started":1,"claim":0})");
  for (int i = 0; i < 5; ++i) {
    const auto task = folder.take();
    ASSERT_TRUE(task);
    EXPECT_NE(task->number, 3);
    make_shard(folder, *task);
  }
  EXPECT_FALSE(folder.take()) << "the last one may still be made elsewhere";
  EXPECT_FALSE(folder.finished());
  make_old(claim);
  const auto task = folder.take();
  ASSERT_TRUE(task);
  EXPECT_EQ(task->number, 3);
  make_shard(folder, *task);
  EXPECT_FALSE(folder.take());
  folder.finish();
  EXPECT_TRUE(fs::exists(out_ / kTokenWork)) << "the claim is held until the task ends";
}

TEST_F(TokenFolders, AWorkerThatWasOnlySlowDoesNoHarm) {
  for (const bool finished : {false, true}) {  // before and after the other completes the folder
    fs::remove_all(out_);
    auto slow = worker(), other = worker();
    std::optional<ShardTask> late = slow.take();
    make_old(shard_claim_path(out_, late->number));
    while (const auto task = other.take()) make_shard(other, *task);
    if (finished) other.finish();
    make_shard(slow, *late);
    late.reset();
    EXPECT_FALSE(slow.take());
    EXPECT_TRUE(slow.finished());
    slow.finish();
    if (!finished) other.finish();
    expect_whole();
  }
}

TEST_F(TokenFolders, DamageIsFoundInTheOwnPartAndMissingShardsInAll) {
  make_tokens(out_, settings_);
  write_text(out_ / token_shard_name(1), "damaged");
  fs::remove(out_ / token_shard_name(5));
  auto other = worker(3, 3);  // 4 and 5
  auto own = worker(1, 3);    // 0 and 1
  auto task = other.take();
  ASSERT_TRUE(task);
  EXPECT_EQ(task->number, 5);
  // A worker that is finished does not tidy up below one that is not.
  other.finish();
  EXPECT_TRUE(task->claim->held());
  make_shard(other, *task);
  task.reset();
  EXPECT_FALSE(other.take());
  EXPECT_TRUE(other.finished());
  other.finish();

  task = own.take();
  ASSERT_TRUE(task);
  EXPECT_EQ(task->number, 1);
  make_shard(own, *task);
  task.reset();
  EXPECT_FALSE(own.take());
  EXPECT_TRUE(own.finished());
  own.finish();
  expect_whole();
}

TEST_F(TokenFolders, OtherSettingsAreRefusedFromTheFirstMomentOn) {
  auto folder = worker();  // has written no shard yet
  auto other = settings_;
  other.model_sha256 = std::string(64, 'f');
  EXPECT_NE(error_of([&] { small_folder(out_, other); }).find("model"), std::string::npos);
  fs::create_directories(folder_ / "mine");
  write_text(folder_ / "mine" / "notes.txt", "");
  EXPECT_NE(error_of([&] { small_folder(folder_ / "mine", settings_); }).find("other files"),
            std::string::npos);
}

/// Earlier versions entered each shard in the manifest, and kept a lock.
TEST_F(TokenFolders, WhatAnEarlierVersionBeganIsCompleted) {
  auto manifest = read_token_manifest(whole_);
  manifest.complete = false;
  manifest.shards = {manifest.shards[0], manifest.shards[3]};
  write_token_manifest(out_, manifest);
  for (const int number : {0, 3}) {
    fs::copy_file(whole_ / token_shard_name(number), out_ / token_shard_name(number));
  }
  write_text(out_ / ".lock", "");
  auto folder = worker();
  std::vector<int64_t> made;
  while (const auto task = folder.take()) {
    made.push_back(task->number);
    make_shard(folder, *task);
  }
  EXPECT_EQ(made, (std::vector<int64_t>{1, 2, 4, 5}));
  folder.finish();
  fs::remove(out_ / ".lock");
  expect_whole();
}

TEST_F(TokenFolders, WhatAKilledWorkerLeavesIsCompleted) {
  {
    auto folder = worker();
    for (int i = 0; i < 2; ++i) make_shard(folder, *folder.take());
  }
  // A shard without its record, unfinished files, and a record that a power cut has emptied.
  fs::copy_file(whole_ / token_shard_name(4), out_ / token_shard_name(4));
  write_text(out_ / ".tokens-00002.safetensors.tmp-1-0", "half");
  write_text(out_ / ".manifest.json.tmp-1-0", "half");
  write_text(out_ / kTokenWork / ".tokens-00002.claim.tmp-1-0", "half");
  write_text(shard_record_path(out_, 0), "");
  make_tokens(out_, settings_);
  expect_whole();

  // A worker killed before it had a manifest, and one that had only to tidy up.
  fs::remove_all(out_);
  write_text(out_ / ".manifest.json.tmp-1-0", "half");
  make_tokens(out_, settings_);
  expect_whole();
  fs::create_directory(out_ / kTokenWork);
  make_tokens(out_, settings_);
  expect_whole();
}

TEST_F(TokenFolders, NothingOfOthersIsRemovedWithTheWork) {
  const auto others = folder_ / "others";
  make_tokens(out_, settings_);
  write_text(others / "thesis/chapter.txt", "mine");
  write_text(others / "tokens-00000.json", "mine");
  fs::create_directory_symlink(others, out_ / kTokenWork);
  const auto error = error_of([&] { make_tokens(out_, settings_); });
  EXPECT_NE(error.find("/.work: a link"), std::string::npos) << error;
  EXPECT_EQ(bytes_below(others).size(), 3u);

  fs::remove(out_ / kTokenWork);
  write_text(out_ / kTokenWork / "thesis/chapter.txt", "mine");
  for (const auto* name : {"tokens-00000.json.txt", "notes.json", ".tokens-00002.claim.tmp-old"}) {
    write_text(out_ / kTokenWork / name, "mine");
  }
  for (const auto* name : {".tokens-00002.claim.aside-host-1-0", ".time-host-1"}) {
    write_text(out_ / kTokenWork / name, "");
  }
  make_tokens(out_, settings_);
  EXPECT_EQ(bytes_below(out_ / kTokenWork).size(), 5u) << "files of others, and a folder of one";
}

TEST_F(TokenFolders, RecordsThatVerifyRefusesAreRefusedOrWrittenAgain) {
  make_tokens(out_, settings_);
  const auto sound = read_token_manifest(out_);
  auto manifest = sound;
  manifest.shards.push_back(manifest.shards.back());
  write_token_manifest(out_, manifest);
  const auto error = error_of([&] { make_tokens(out_, settings_); });
  EXPECT_NE(error.find("'tokens-00005.safetensors' twice"), std::string::npos) << error;

  manifest = sound;
  manifest.shards[2].images = 7;
  write_token_manifest(out_, manifest);
  make_tokens(out_, settings_);
  expect_whole();
}

}  // namespace
}  // namespace nsvq
