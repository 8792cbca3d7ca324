// `nsvq reproduce` as a whole, at the scale that is there for this test.

#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <map>

#include "nsvq/core/temporary_folder.h"
#include "nsvq/io/file.h"
#include "nsvq/io/json.h"
#include "tests/cli/kill.h"
#include "tests/cli/run.h"

namespace nsvq {
namespace {

namespace fs = std::filesystem;

std::map<std::string, std::string> finished_logs(const fs::path& runs) {
  std::map<std::string, std::string> logs;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(runs, none)) {
    const auto log = entry.path() / "log.txt";
    if (!fs::exists(log)) continue;
    const auto text = read_text(log);
    if (text.find("report:") != std::string::npos) logs[log.string()] = text;
  }
  return logs;
}

TEST(Reproduce, AllExperimentsAfterAKill) {
  const TemporaryFolder folder;
  const auto out = folder / "out";
  fs::create_directories(out / "runs");
  const std::vector<std::string> words = {"reproduce", "all", "--scale", "test",
                                          "--jobs",    "2",   "--out",   out.string()};
  // Killed when some runs are finished and others are under way.
  int logs = 0;
  const int status =
      run_and_kill(words, folder / "log", out / "runs", [&](const std::string& name) {
        return name.ends_with("log.txt") && finished_logs(out / "runs").size() >= 3 && ++logs > 0;
      });
  ASSERT_TRUE(WIFSIGNALED(status)) << read_text(folder / "log");
  const auto before = finished_logs(out / "runs");
  EXPECT_GE(before.size(), 3u);

  Program again(words, folder / "log");
  ASSERT_EQ(again.wait(), 0) << read_text(folder / "log");
  for (const auto& [log, text] : before) EXPECT_EQ(read_text(log), text) << "repeated";

  int experiments = 0;
  for (const auto& entry : fs::directory_iterator(out)) {
    if (entry.path().extension() != ".json") continue;
    SCOPED_TRACE(entry.path());
    ++experiments;
    const auto json = read_json(entry.path());
    EXPECT_FALSE(json.at("rows").empty());
    for (const auto& row : json.at("rows")) {
      EXPECT_FALSE(row.contains("problem")) << row.dump();
      for (const auto& [column, figure] : row.at("figures").items()) {
        EXPECT_TRUE(figure.at("mean").is_number()) << row.at("name") << " " << column;
      }
    }
    EXPECT_FALSE(json.at("claims").empty());
    auto page = entry.path();
    EXPECT_GT(fs::file_size(page.replace_extension(".html")), 10000u);
    EXPECT_EQ(read_text(page).find("no data"), std::string::npos) << "an empty chart";
  }
  EXPECT_EQ(experiments, 12);
  EXPECT_TRUE(fs::exists(out / "index.html"));
  EXPECT_FALSE(fs::is_empty(out / "pictures"));
}

TEST(Reproduce, WrongArgumentsAreOneLine) {
  expect_failure(run({"reproduce", "table2"}), 2, {"table2", "did you mean 'table1'"});
  expect_failure(run({"reproduce", "nowhere.yaml"}), 2, {"nowhere.yaml"});
  expect_failure(run({"reproduce", "table1", "--scale", "large"}), 2, {"large"});
  expect_failure(run({"reproduce", "table1", "table1"}), 2, {"table1", "twice"});
  EXPECT_EQ(run({"reproduce", "list"}).code, 0);
}

TEST(Reproduce, DryRunStartsNothing) {
  const TemporaryFolder folder;
  const auto out = (folder / "out").string();
  const auto result = run({"reproduce", "table1", "--scale", "test", "--out", out, "--dry-run"});
  EXPECT_EQ(result.code, 0) << result.error;
  expect_contains(result.out, {"nsvq-", "to do", "steps", "unknown", "Disk"});
  EXPECT_FALSE(fs::exists(out));
}

}  // namespace
}  // namespace nsvq
