// Kills real `nsvq tokenize` processes with SIGKILL, starts them again, and compares with a folder
// made at once. NSVQ_KILLS sets the number of kills.

#include <gtest/gtest.h>

#include <map>

#include "nsvq/core/temporary_folder.h"
#include "tests/cli/kill.h"
#include "tests/cli/model_file.h"
#include "tests/expect_contains.h"
#include "tests/train/tiny.h"

namespace nsvq {
namespace {

namespace fs = std::filesystem;

std::map<std::string, std::vector<std::byte>> files_in(const fs::path& folder) {
  std::map<std::string, std::vector<std::byte>> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    files[entry.path().filename().string()] = read_file(entry.path());
  }
  return files;
}

TEST(TokenizeKill, TheFolderIsTheSameAfterAnyNumberOfKills) {
  TemporaryFolder folder;
  const auto model = folder / "model.safetensors";
  write_model_file(model, tiny_config());
  const auto command = [&](const fs::path& out) -> std::vector<std::string> {
    return {"tokenize", model.string(), "--data",       "builtin:dead-leaves?size=24&count=1500",
            "--out",    out.string(),   "--shard-size", "8"};
  };
  kill_and_compare(folder.path(), command, [](const fs::path& whole, const fs::path& out) {
    const auto expected = files_in(whole);
    EXPECT_EQ(expected.size(), 188u + 1);  // shards, manifest
    EXPECT_TRUE(files_in(out) == expected) << out;
  });
}

TEST(TokenizeStop, KeepsFinishedShardsAndFreesTheOthers) {
  TemporaryFolder folder;
  const auto model = folder / "model.safetensors", out = folder / "tokens",
             whole = folder / "whole";
  write_model_file(model, tiny_config());
  const auto command = [&](const fs::path& into) -> std::vector<std::string> {
    return {"tokenize", model.string(), "--data",       "builtin:dead-leaves?size=24&count=3000",
            "--out",    into.string(),  "--shard-size", "64"};
  };
  const auto log = (folder / "log").string();
  for (const auto& [number, code] : {std::pair(SIGTERM, 143), {SIGINT, 130}}) {
    int finished = 0;
    const auto third_shard = [&](const std::string& name) {
      return name.ends_with(".safetensors") && ++finished == 3;
    };
    const int status = run_and_kill(command(out), log, folder.path(), third_shard, number);
    EXPECT_TRUE(WIFEXITED(status)) << status;
    EXPECT_EQ(WEXITSTATUS(status), code);
    for (const auto& entry : fs::directory_iterator(out / ".work")) {
      EXPECT_NE(entry.path().extension(), ".claim") << entry.path();
    }
  }
  expect_contains(read_text(log), {"tokens: stopped; the same command makes the shards that are "
                                   "missing\n"});
  const auto never = [](const std::string&) { return false; };
  EXPECT_EQ(run_and_kill(command(out), log, folder.path(), never), 0) << read_text(log);
  EXPECT_EQ(run_and_kill(command(whole), log, folder.path(), never), 0);
  EXPECT_TRUE(files_in(out) == files_in(whole));
}

}  // namespace
}  // namespace nsvq
