#include "nsvq/report/live_runs.h"

#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>

#include "nsvq/core/error.h"
#include "nsvq/core/temporary_folder.h"
#include "nsvq/io/images/image.h"

namespace nsvq {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class Live : public ::testing::Test {
 protected:
  fs::path put_run(const fs::path& run, int steps = 1) {
    fs::create_directories(run / "samples");
    std::ofstream(run / "config.yaml") << "seed: 1\n";
    std::ofstream log(run / "metrics.jsonl");
    for (int i = 1; i <= steps; ++i)
      log << json{{"kind", "step"}, {"step", i}, {"loss", 2}} << "\n";
    return run;
  }
  static void put_picture(const fs::path& run) {
    write_image(run / "samples" / "epoch-0003.png", {4, 2, std::vector<uint8_t>(24, 9)});
  }
  json list() const { return json::parse(LiveRuns(runs_).list()); }
  json run(const std::string& name) const { return json::parse(LiveRuns(runs_).run(name).value()); }

  TemporaryFolder folder_;
  fs::path runs_ = folder_ / "runs";
};

TEST_F(Live, RunsByTheirPaths) {
  put_run(runs_ / "b");
  put_picture(put_run(runs_ / "sweep" / "a c"));
  const auto all = list().at("runs");
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all.at(0).at("name"), "b");
  EXPECT_EQ(all.at(1).at("name"), "sweep/a c");
  const auto data = run("sweep/a c");
  EXPECT_EQ(data.at("version"), all.at(1).at("version"));
  EXPECT_EQ(data.at("state"), "stopped");
  EXPECT_EQ(data.at("pictures").at(0).at("epoch"), 3);
  const LiveRuns runs(runs_);
  EXPECT_TRUE(runs.picture("sweep/a c", 3).has_value());
  EXPECT_FALSE(runs.picture("sweep/a c", 2).has_value());
  EXPECT_NE(runs.codes("b").value().find("no_codes"), std::string::npos) << "no model yet";
  EXPECT_EQ(json::parse(LiveRuns(runs_ / "b" / "").list()).at("runs").at(0).at("name"), "b");
}

TEST_F(Live, WhatChangesHasAnotherVersion) {
  put_picture(put_run(runs_ / "a"));
  const auto before = list(), data = run("a");
  EXPECT_EQ(list(), before);
  put_run(runs_ / "a", 2);
  EXPECT_NE(list(), before);
  EXPECT_EQ(run("a").at("step"), 2);
  EXPECT_EQ(run("a").at("pictures"), data.at("pictures"));
  const auto now = fs::file_time_type::clock::now();  // clocks of file systems are coarse
  fs::last_write_time(runs_ / "a" / "config.yaml", now - std::chrono::hours(1));
  EXPECT_NE(run("a").at("began"), data.at("began")) << "a new run of the name";
}

TEST_F(Live, NamesAreNoPaths) {
  put_run(runs_ / "a");
  const auto outside = put_run(folder_ / "outside");
  put_picture(outside);
  const LiveRuns runs(runs_);
  const std::vector<std::string> names{
      "../outside", "a/../../outside", outside.string(), "", ".", "..",
      "a/",         "a/samples",       "%2e%2e/outside"};
  for (const auto& name : names) {
    EXPECT_FALSE(runs.run(name).has_value()) << name;
    EXPECT_FALSE(runs.codes(name).has_value()) << name;
    EXPECT_FALSE(runs.picture(name, 3).has_value()) << name;
  }
}

TEST_F(Live, RunsWithLinksOutOfTheFolderAreNotShown) {
  const auto outside = put_run(folder_ / "outside"), linked = put_run(runs_ / "linked");
  put_picture(outside);
  put_run(runs_ / "a");
  fs::create_symlink(outside, runs_ / "run");
  fs::create_symlink(runs_ / "a" / "metrics.jsonl", runs_ / "a" / "log");
  const auto shown = list();
  EXPECT_EQ(shown.at("runs").size(), 2u) << "a link that stays inside does no harm";
  EXPECT_NE(shown.at("notes").dump().find("run is a link out of the folder"), std::string::npos);
  const auto notes_with = [&](const fs::path& target, const fs::path& link) {
    fs::remove_all(link);
    fs::create_symlink(target, link);
    EXPECT_FALSE(LiveRuns(runs_).run("linked").has_value()) << link;
    EXPECT_FALSE(LiveRuns(runs_).picture("linked", 3).has_value()) << link;
    const auto notes = list().at("notes").dump();
    fs::remove(link);
    return notes;
  };
  EXPECT_NE(notes_with(outside / "metrics.jsonl", linked / "metrics.jsonl")
                .find("linked/metrics.jsonl is a link"),
            std::string::npos);
  EXPECT_NE(notes_with(outside / "samples", linked / "samples").find("linked/samples"),
            std::string::npos);
  EXPECT_NE(notes_with(runs_ / "a" / "samples", linked / "samples").find("or to a folder"),
            std::string::npos);
}

TEST_F(Live, WhatCannotBeReadIsSaid) {
  EXPECT_THROW(LiveRuns(folder_ / "nowhere"), UserError);
  const auto path = put_run(runs_ / "a");
  fs::create_directories(path / "checkpoints" / "step-7");
  std::ofstream(path / "checkpoints" / "step-7" / "model.safetensors") << "torn";
  EXPECT_NE(run("a").at("notices").dump().find("step-7"), std::string::npos);
  const LiveRuns runs(runs_);
  EXPECT_EQ(json::parse(runs.list()).at("notes"), json::array());
  fs::remove_all(runs_);
  EXPECT_NE(runs.list().find("no longer there"), std::string::npos);
}

}  // namespace
}  // namespace nsvq
