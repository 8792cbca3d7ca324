// Several real `nsvq tokenize` processes that fill one folder, stopped and killed by progress.

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>

#include "nsvq/core/temporary_folder.h"
#include "nsvq/tokens/token_shard.h"
#include "nsvq/tokens/token_work.h"
#include "tests/cli/kill.h"
#include "tests/cli/model_file.h"
#include "tests/tokens/small_tokens.h"
#include "tests/train/tiny.h"

namespace nsvq {
namespace {

namespace fs = std::filesystem;
using Files = std::map<std::string, std::vector<std::byte>>;

class TokenWorkers : public testing::Test {
 protected:
  static constexpr int kShards = 30;

  void SetUp() override { write_model_file(model_, tiny_config()); }
  /// What one process writes.
  const Files& whole() const {
    static const Files files = [&] {
      EXPECT_EQ(start("1/1", "whole")->wait(), 0) << read_text(folder_ / "log");
      return bytes_below(folder_ / "whole");
    }();
    EXPECT_EQ(files.size(), kShards + 1u);
    return files;
  }
  std::unique_ptr<Program> start(const std::string& part, const std::string& out = "out",
                                 const std::string& batch = "2") const {
    return std::make_unique<Program>(
        std::vector<std::string>{
            "tokenize", model_.string(), "--data", "builtin:dead-leaves?size=24&count=239", "--out",
            (folder_ / out).string(), "--shard-size", "8", "--batch-size", batch, "--part", part},
        folder_ / "log");
  }
  void expect_whole() const {
    EXPECT_TRUE(bytes_below(out_) == whole()) << read_text(folder_ / "log");
  }
  /// Waits until `program` has ended or, given the names of changed files, `until` is true; false
  /// in the first case.
  static bool wait(const Program& program, FolderWatch& watch,
                   const std::function<bool(const std::string&)>& until) {
    while (true) {
      const bool running = program.wait_for_change(watch);
      const auto changes = watch.changes();
      if (std::any_of(changes.begin(), changes.end(), until)) return true;
      if (!running) return false;
    }
  }
  /// Starts `workers` processes and kills one after another, each after some changes of files; a
  /// killed one is started again.
  void kill_workers(int workers, int kills) {
    FolderWatch watch(folder_.path());
    const auto part = [&](int worker) { return fmt::format("{}/{}", worker + 1, workers); };
    std::vector<std::unique_ptr<Program>> running;
    for (int i = 0; i < workers; ++i) running.push_back(start(part(i)));
    int killed = 0;
    for (int i = 0; i < kills; ++i) {
      auto& victim = running[i % workers];
      int left = 40 + 7 * i;
      // Every other one dies in the middle of an atomic write or of taking a claim.
      if (!wait(*victim, watch, [&](const std::string& name) {
            return --left <= 0 && (i % 2 == 0 || name.find(".tmp") != std::string::npos);
          })) {
        break;
      }
      victim->kill();
      killed += WIFSIGNALED(victim->wait()) ? 1 : 0;
      victim = start(part(i % workers));
    }
    for (auto& worker : running) EXPECT_EQ(worker->wait(), 0) << read_text(folder_ / "log");
    EXPECT_GT(killed, 0);
    expect_whole();
  }

  TemporaryFolder folder_;
  fs::path model_ = folder_ / "model.safetensors", out_ = folder_ / "out";
};

TEST_F(TokenWorkers, TwoWithKillsWriteWhatOneWrites) { kill_workers(2, 5); }
TEST_F(TokenWorkers, ThreeWithKillsWriteWhatOneWrites) { kill_workers(3, 6); }

TEST_F(TokenWorkers, AllKilledAndOneStartedAgain) {
  {
    FolderWatch watch(folder_.path());
    std::vector<std::unique_ptr<Program>> running;
    for (const auto* part : {"1/3", "2/3", "3/3"}) running.push_back(start(part));
    int records = 0;
    wait(*running[0], watch, [&](const std::string& name) {
      return token_shard_number(name) && name.ends_with(".json") && ++records == 10;
    });
    for (auto& worker : running) worker->kill();
    for (auto& worker : running) worker->wait();
  }
  EXPECT_EQ(start("2/3")->wait(), 0) << read_text(folder_ / "log");
  expect_whole();
}

/// A worker that stands still in the middle of its work; the other makes all but its shards.
class TokenWorkersStopped : public TokenWorkers {
 protected:
  void SetUp() override {
    TokenWorkers::SetUp();
    FolderWatch watch(folder_.path());
    stopped_ = start("1/2");
    int claims = 0;
    ASSERT_TRUE(wait(*stopped_, watch, [&](const std::string& name) {
      return token_shard_number(name) && name.ends_with(".claim") && ++claims == 5;
    }));
    stopped_->kill(SIGSTOP);
    other_ = start("2/2");
    // Not more than two: one that is being made, one that is being written.
    std::set<std::string> records;
    for (const int64_t number : list_token_work(out_).recorded) {
      records.insert(shard_record_path(out_, number).filename());
    }
    wait(*other_, watch, [&](const std::string& name) {
      if (token_shard_number(name) && name.ends_with(".json")) records.insert(name);
      return records.size() + 2 >= kShards;
    });
  }

  std::unique_ptr<Program> stopped_, other_;
};

TEST_F(TokenWorkersStopped, AndKilledIsReplacedAtOnce) {
  stopped_->kill();
  EXPECT_TRUE(WIFSIGNALED(stopped_->wait()));
  EXPECT_EQ(other_->wait(), 0) << read_text(folder_ / "log");
  expect_whole();
}

TEST_F(TokenWorkersStopped, ForTooLongLosesItsClaimAndDoesNoHarm) {
  // The claims become older than --claim-timeout.
  for (const int64_t number : list_token_work(out_).claimed) {
    std::error_code gone;
    const auto claim = shard_claim_path(out_, number);
    fs::last_write_time(claim, fs::file_time_type::clock::now() - std::chrono::hours(1), gone);
  }
  EXPECT_EQ(other_->wait(), 0) << read_text(folder_ / "log");
  stopped_->kill(SIGCONT);
  EXPECT_EQ(stopped_->wait(), 0) << read_text(folder_ / "log");
  expect_whole();
}

TEST_F(TokenWorkers, AnExpiredClaimOfAnotherMachineIsTakenOver) {
  {
    FolderWatch watch(folder_.path());
    const auto worker = start("1/1");
    wait(*worker, watch, [&](const std::string& name) { return name.ends_with(".claim"); });
    worker->kill();
    worker->wait();
  }
  const auto claim = shard_claim_path(out_, 31);
  write_text(claim, R"({"host":"elsewhere","pid":1,"machine":"another","started":1,"claim":0})");
  fs::last_write_time(claim, fs::last_write_time(claim) - std::chrono::hours(1));
  EXPECT_EQ(start("1/1")->wait(), 0) << read_text(folder_ / "log");
  expect_whole();
}

TEST_F(TokenWorkers, OneOfOtherSettingsIsRefusedWhileOthersWork) {
  FolderWatch watch(folder_.path());
  const auto worker = start("1/1");
  wait(*worker, watch, [&](const std::string& name) { return name.ends_with(".claim"); });
  worker->kill(SIGSTOP);
  const auto other = start("1/1", "out", "4");
  EXPECT_EQ(WEXITSTATUS(other->wait()), 2);
  EXPECT_NE(read_text(folder_ / "log").find("batch size (4 here, 2 there)"), std::string::npos);
  worker->kill(SIGCONT);
  EXPECT_EQ(worker->wait(), 0);
  expect_whole();
}

}  // namespace
}  // namespace nsvq
