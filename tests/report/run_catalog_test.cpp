#include "nsvq/report/run_catalog.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>

#include "nsvq/core/error.h"
#include "nsvq/core/temporary_folder.h"
#include "nsvq/io/images/image.h"
#include "tests/cli/model_file.h"
#include "tests/train/tiny.h"

namespace nsvq {
namespace {

namespace fs = std::filesystem;

class Catalog : public ::testing::Test {
 protected:
  fs::path put_run(const fs::path& run, const std::string& metrics) {
    fs::create_directories(run / "samples");
    std::ofstream(run / "config.yaml") << "seed: 1\n";
    std::ofstream(run / "metrics.jsonl") << metrics;
    return run;
  }
  static void put_picture(const fs::path& path) {
    write_image(path, {4, 2, std::vector<uint8_t>(24, 9)});
  }
  static nlohmann::json list(RunCatalog& catalog) {
    return nlohmann::json::parse(catalog.list()).at("runs");
  }
  static std::string notes(RunCatalog& catalog) {
    return nlohmann::json::parse(catalog.list()).at("notes").dump();
  }
  static nlohmann::json run(RunCatalog& catalog, const std::string& name) {
    return nlohmann::json::parse(catalog.run(name).value());
  }

  TemporaryFolder folder_;
  fs::path runs_ = folder_ / "runs";
  std::string line_ = R"({"kind":"step","step":1,"loss":2})"
                      "\n";
};

TEST_F(Catalog, RunsByTheirPaths) {
  put_run(runs_ / "b", line_);
  put_run(runs_ / "sweep" / "a c", line_);
  put_picture(runs_ / "sweep" / "a c" / "samples" / "epoch-0003.png");
  RunCatalog catalog(runs_);
  const auto all = list(catalog);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all.at(0).at("name"), "b");
  EXPECT_EQ(all.at(1).at("name"), "sweep/a c");
  const auto data = run(catalog, "sweep/a c");
  EXPECT_EQ(data.at("version"), all.at(1).at("version"));
  EXPECT_EQ(data.at("state"), "stopped");
  const std::string source = data.at("pictures").at(0).at("source");
  EXPECT_TRUE(source.starts_with("picture?run=sweep%2Fa%20c&epoch=3&version=")) << source;
  EXPECT_TRUE(catalog.picture("sweep/a c", 3).has_value());
  EXPECT_FALSE(catalog.picture("sweep/a c", 2).has_value());
  EXPECT_NE(catalog.codes("b").value().find("no_codes"), std::string::npos) << "no model yet";
}

TEST_F(Catalog, AFolderThatIsARun) {
  put_run(runs_ / "one", line_);
  RunCatalog catalog(runs_ / "one" / "");
  EXPECT_EQ(list(catalog).at(0).at("name"), "one");
  EXPECT_EQ(run(catalog, "one").at("step"), 1);
}

TEST_F(Catalog, WhatChangesHasAnotherVersion) {
  const auto path = put_run(runs_ / "a", line_);
  RunCatalog catalog(runs_);
  const auto before = list(catalog).at(0).at("version");
  EXPECT_EQ(run(catalog, "a").at("step"), 1);
  EXPECT_EQ(list(catalog).at(0).at("version"), before);
  std::ofstream(path / "metrics.jsonl", std::ios::app) << R"({"kind":"step","step":2,"loss":1})"
                                                          "\n";
  // It may rest for as long as reading took, some times over: then the old data is served as such.
  const auto listed = list(catalog).at(0).at("version");
  const auto data = run(catalog, "a");
  EXPECT_EQ(data.at("step"), data.at("version") == before ? 1 : 2);
  RunCatalog fresh(runs_);
  EXPECT_NE(list(fresh).at(0).at("version"), before);
  EXPECT_EQ(run(fresh, "a").at("step"), 2);
}

TEST_F(Catalog, ARunUnderTheNameOfADeletedOne) {
  const auto put = [&](int codes) {
    const auto path = put_run(runs_ / "a", line_);
    write_image(path / "samples" / "epoch-0001.png",
                {codes, 2, std::vector<uint8_t>(static_cast<size_t>(codes) * 6, 9)});
    fs::create_directories(path / "checkpoints" / "step-1");
    auto config = tiny_config();
    config.quantizer.codes = codes;
    write_model_file(path / "checkpoints" / "step-1" / "model.safetensors", config);
    // Clocks of file systems are coarse.
    const auto now = fs::file_time_type::clock::now();
    fs::last_write_time(path / "config.yaml", now - std::chrono::hours(codes));
  };
  put(32);
  RunCatalog catalog(runs_);
  const auto before = run(catalog, "a");
  EXPECT_EQ(nlohmann::json::parse(catalog.codes("a").value()).at("codes"), 32);
  fs::remove_all(runs_ / "a");
  put(16);
  EXPECT_EQ(nlohmann::json::parse(catalog.codes("a").value()).at("codes"), 16);
  RunCatalog fresh(runs_);  // the other may rest
  const auto after = run(fresh, "a");
  EXPECT_NE(after.at("version"), before.at("version"));
  EXPECT_NE(after.at("began"), before.at("began"));
  EXPECT_NE(after.at("pictures").at(0).at("source"), before.at("pictures").at(0).at("source"));
}

TEST_F(Catalog, NamesAreNoPaths) {
  put_run(runs_ / "a", line_);
  const auto outside = put_run(folder_ / "outside", line_);
  put_picture(outside / "samples" / "epoch-0001.png");
  RunCatalog catalog(runs_);
  const std::vector<std::string> names{
      "../outside", "a/../../outside", outside.string(), "", ".", "..",
      "a/",         "a/samples",       "%2e%2e/outside"};
  for (const auto& name : names) {
    EXPECT_FALSE(catalog.run(name).has_value()) << name;
    EXPECT_FALSE(catalog.codes(name).has_value()) << name;
    EXPECT_FALSE(catalog.picture(name, 1).has_value()) << name;
  }
}

TEST_F(Catalog, LinksOutOfTheFolderAreNotFollowed) {
  const auto outside = put_run(folder_ / "outside", line_);
  put_picture(outside / "samples" / "epoch-0001.png");
  const auto run_path = put_run(runs_ / "a", "");
  fs::remove(run_path / "metrics.jsonl");
  fs::create_symlink(outside / "metrics.jsonl", run_path / "metrics.jsonl");
  fs::create_symlink(outside / "samples" / "epoch-0001.png",
                     run_path / "samples" / "epoch-0001.png");
  fs::create_symlink(outside, runs_ / "link");
  RunCatalog catalog(runs_);
  EXPECT_EQ(list(catalog).size(), 1u);
  EXPECT_NE(notes(catalog).find("link: a link out of the folder"), std::string::npos);
  EXPECT_NE(
      run(catalog, "a").at("notices").dump().find("metrics.jsonl is a link out of the folder"),
      std::string::npos);
  EXPECT_FALSE(catalog.run("link").has_value());
  EXPECT_EQ(run(catalog, "a").at("step"), 0);
  EXPECT_FALSE(catalog.picture("a", 1).has_value());
  EXPECT_NE(catalog.codes("a").value().find("a link out of the folder"), std::string::npos);
}

TEST_F(Catalog, OfLinkedSettingsNothingIsTold) {
  const auto outside = put_run(folder_ / "outside", line_);
  std::ofstream(outside / "config.yaml") << "no: [settings";
  const auto run_path = put_run(runs_ / "a", line_);
  fs::remove(run_path / "config.yaml");
  fs::create_symlink(outside / "config.yaml", run_path / "config.yaml");
  RunCatalog catalog(runs_);
  const auto before = list(catalog);
  const auto data = run(catalog, "a");
  EXPECT_EQ(data.at("state"), "") << "damaged, if the file were read";
  EXPECT_NE(data.at("notices").dump().find("config.yaml is a link out of the folder"),
            std::string::npos);
  std::ofstream(outside / "config.yaml") << "other: settings of another length";
  EXPECT_EQ(list(catalog), before) << "neither its size nor its time";
}

TEST_F(Catalog, AFolderThatGoesAwayIsSaid) {
  put_run(runs_ / "a", line_);
  RunCatalog catalog(runs_);
  EXPECT_EQ(notes(catalog), "[]");
  fs::remove_all(runs_);
  EXPECT_NE(notes(catalog).find("no longer there"), std::string::npos);
}

TEST_F(Catalog, ADamagedCheckpointIsNoted) {
  const auto path = put_run(runs_ / "a", line_);
  fs::create_directories(path / "checkpoints" / "step-7");
  std::ofstream(path / "checkpoints" / "step-7" / "model.safetensors") << "torn";
  RunCatalog catalog(runs_);
  EXPECT_NE(run(catalog, "a").at("notices").dump().find("step-7"), std::string::npos);
}

TEST_F(Catalog, BrokenRunsHaveNotices) {
  put_run(runs_ / "a", std::string(300'000, 'x') + "\n\xff\xfe\n" + line_ + "{\"kind\":");
  put_run(runs_ / "b", line_);
  fs::remove(runs_ / "b" / "metrics.jsonl");
  fs::create_directory(runs_ / "b" / "metrics.jsonl");
  RunCatalog catalog(runs_);
  EXPECT_EQ(list(catalog).size(), 2u);
  EXPECT_NE(run(catalog, "a").at("notices").dump().find("3 lines"), std::string::npos);
  EXPECT_NE(run(catalog, "b").at("notices").dump().find("metrics.jsonl is missing"),
            std::string::npos);
}

TEST_F(Catalog, FiftyRuns) {
  for (int i = 0; i < 50; ++i) put_run(runs_ / fmt::format("run-{}", i), line_);
  RunCatalog catalog(runs_);
  const auto all = list(catalog);
  ASSERT_EQ(all.size(), 50u);
  for (const auto& entry : all) EXPECT_EQ(run(catalog, entry.at("name")).at("step"), 1);
}

TEST_F(Catalog, NoSuchFolder) { EXPECT_THROW(RunCatalog(folder_ / "nowhere"), UserError); }

}  // namespace
}  // namespace nsvq
