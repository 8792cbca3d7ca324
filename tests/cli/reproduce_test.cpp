// `nsvq reproduce` as a whole, at the scale that is there for this test.

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "nsvq/core/temporary_folder.h"
#include "nsvq/experiments/plan/make_plan.h"
#include "nsvq/experiments/run/reproduce.h"
#include "nsvq/io/files/file.h"
#include "nsvq/io/formats/json.h"
#include "tests/cli/kill.h"
#include "tests/cli/run.h"
#include "tests/processes.h"

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

/// Charts on an experiment's page, each of whose lines has a point to draw.
size_t charts_with_lines(const fs::path& page) {
  const auto text = read_text(page);
  const std::string begin = "id=\"data\">";
  const auto from = text.find(begin) + begin.size();
  const auto data = nlohmann::json::parse(text.substr(from, text.find("</script>", from) - from));
  size_t drawn = 0;
  for (const auto& chart : data.at("experiments").at(0).at("charts")) {
    const auto& lines = chart.at("lines");
    const bool all = std::all_of(lines.begin(), lines.end(), [](const auto& line) {
      const auto& y = line.at("y");
      return std::any_of(y.begin(), y.end(), [](const auto& value) { return value.is_number(); });
    });
    drawn += !lines.empty() && all ? 1 : 0;
  }
  return drawn;
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
  EXPECT_TRUE(all_processes_end(out.string())) << "a run goes on without its parent";
  const auto before = finished_logs(out / "runs");
  EXPECT_GE(before.size(), 3u);

  Program again(words, folder / "log");
  ASSERT_EQ(again.wait(), 0) << read_text(folder / "log");
  for (const auto& [log, text] : before) EXPECT_EQ(read_text(log), text) << "repeated";

  // Charts per experiment; rFID and the perceptual loss are not measured at this scale.
  std::map<std::string, size_t> expected = {{"stress", 8},
                                            {"controlled-drift", 3},
                                            {"sensitivity", 4},
                                            {"dynamics", 6},
                                            {"kmeans-fixed-point", 2}};
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
        // Lloyd's algorithm is run to its end, and its cell says that there is no start.
        const bool no_start = row.at("name") == "lloyd" && column == "distance-first";
        EXPECT_EQ(figure.at("mean").is_number(), !no_start) << row.at("name") << " " << column;
        EXPECT_EQ(figure.contains("missing"), no_start);
      }
    }
    EXPECT_FALSE(json.at("claims").empty());
    for (const auto& claim : json.at("claims")) {
      EXPECT_EQ(claim.at("verdict"), "not tested at this scale") << claim.dump();
    }
    auto page = entry.path();
    EXPECT_GT(fs::file_size(page.replace_extension(".html")), 10000u);
    EXPECT_EQ(charts_with_lines(page), expected[entry.path().stem().string()]);
  }
  EXPECT_EQ(experiments, 12);
  // Charts without and with protection stand side by side, with one y axis.
  expect_contains(read_text(out / "stress.html"), {"\"beside\":2", "\"y_range\":["});
  EXPECT_TRUE(fs::exists(out / "index.html"));
  EXPECT_FALSE(fs::is_empty(out / "pictures"));
}

TEST(Reproduce, PilotsDecideAndMinutesEndIt) {
  const TemporaryFolder folder;
  const auto table1 = fs::path(NSVQ_TESTS_DIR) / "../../configs/table1";
  write_text(folder / "rate.yaml",
             "title: A rate by pilots\n"
             "columns: [psnr, rate]\n"
             "figures: {rate: {of: pilot.chosen}}\n"
             "scales:\n"
             "  test:\n"
             "    over: [" +
                 (table1 / "tiny.yaml").string() +
                 "]\n"
                 "    pilot: {key: optimizer.lr, values: [1e-9, 1e-2], set: [train.epochs=1]}\n"
                 "runs: {simvq: {recipe: " +
                 (table1 / "simvq.yaml").string() + "}}\n");
  std::vector<std::string> words = {
      "reproduce", (folder / "rate.yaml").string(), "--scale",   "test",
      "--out",     (folder / "out").string(),       "--minutes", "1e-9"};
  Program too_late(words, folder / "log");
  ASSERT_EQ(too_late.wait(), 0) << read_text(folder / "log");
  expect_contains(read_text(folder / "log"), {"3 runs left", "the same command goes on"});
  EXPECT_TRUE(finished_logs(folder / "out" / "runs").empty());
  expect_contains(read_text(folder / "out" / "rate.md"), {"not run yet"});

  words.resize(words.size() - 2);
  Program program(words, folder / "log");
  ASSERT_EQ(program.wait(), 0) << read_text(folder / "log");
  // Two runs that only decide, and one that counts. A rate of 1e-9 trains nothing.
  EXPECT_EQ(finished_logs(folder / "out" / "runs").size(), 3u);
  const auto row = read_json(folder / "out" / "rate.json").at("rows").at(0).at("figures");
  EXPECT_EQ(row.at("rate").at("mean"), 1e-2);
}

/// A machine with two GPUs; here their processes share the CPU.
TEST(Reproduce, RunsOfTwoProcesses) {
  const TemporaryFolder folder;
  const auto file = fs::path(NSVQ_TESTS_DIR) / "../../configs/experiments/cost.yaml";
  auto text = read_text(file);
  const std::string epochs = "set: [train.epochs=2]";
  text.replace(text.find(epochs), epochs.size(), "set: [train.epochs=2, device=cpu]");
  const std::vector experiments = {parse_experiment(text, file)};
  PlanOptions options;
  options.scale = "test";
  options.out = folder / "out";
  options.gpus = 2;
  const auto plan = make_plan(experiments, options);
  ScheduleOptions schedule;
  schedule.program = NSVQ_PROGRAM;
  schedule.environments = {"", ""};
  schedule.threads = 1;
  const auto result = reproduce(plan, options.out, schedule);
  EXPECT_EQ(result.failed + result.left, 0u);
  const auto rows = read_json(options.out / "cost.json").at("rows");
  ASSERT_EQ(rows.size(), 6u);
  const auto& two = rows.at(3);
  EXPECT_EQ(two.at("title"), "SimVQ, 2 GPUs");
  EXPECT_EQ(two.at("figures").at("time-ratio").at("mean"), 1.0);
  expect_contains(read_text(plan.runs[plan.experiments[0].rows[3].runs[0]].folder / "log.txt"),
                  {"2 processes"});
  EXPECT_EQ(charts_with_lines(options.out / "cost.html"), 3u);
}

TEST(Reproduce, WrongArgumentsAreOneLine) {
  expect_failure(run({"reproduce", "table2"}), 2, {"table2", "did you mean 'table1'"});
  expect_failure(run({"reproduce", "nowhere.yaml"}), 2, {"nowhere.yaml"});
  expect_failure(run({"reproduce", "table1", "--scale", "large"}), 2, {"large"});
  expect_failure(run({"reproduce", "table1", "table1"}), 2, {"table1", "twice"});
  expect_failure(run({"reproduce", "table1", "--minutes", "-1"}), 2, {"--minutes"});
  expect_failure(run({"reproduce", "table1", "--minutes", "nan"}), 2,
                 {"--minutes", "'nan'", "> 0"});
  expect_failure(run({"reproduce", "table1", "--rows", "fsq,simvk"}), 2,
                 {"simvk", "did you mean 'simvq'"});
  expect_failure(run({"reproduce", "table1", "--rows", "vqgan-lc", "--scale", "test"}), 2,
                 {"VQGAN-LC is left out: it needs features of a pretrained network"});
  expect_failure(run({"reproduce", "stress", "--rows", "protected"}), 2,
                 {"protected is several rows: protected@0.1, protected@0.5"});
  expect_failure(run({"reproduce", "kmeans-fixed-point", "--rows", "autoencoder"}), 2,
                 {"autoencoder is no row"});
  expect_failure(run({"reproduce", "components", "--data", "imagenet=/nope"}), 2,
                 {"imagenet=/nope", "image set", "celeba"});
  expect_failure(run({"reproduce", "table1", "--seeds", "0,1,1"}), 2,
                 {"--seeds", "1 is named twice"});
  expect_failure(run({"reproduce", "table1", "--seeds", "0,x"}), 2, {"--seeds", "'x'", "whole"});
  expect_failure(run({"reproduce", "table1", "--scale", "test", "--out", "/proc/there"}), 2,
                 {"cannot create folder /proc/there: "});
  EXPECT_EQ(run({"reproduce", "list"}).code, 0);
}

TEST(Reproduce, DryRunStartsNothing) {
  const TemporaryFolder folder;
  const auto out = (folder / "out").string();
  const auto result =
      run({"reproduce", "table1", "--scale", "test", "--out", out, "--dry-run", "--no-timing"});
  EXPECT_EQ(result.code, 0) << result.error;
  expect_contains(result.out, {"nsvq-", "to do", "steps", "unknown"});
  EXPECT_FALSE(fs::exists(out));
  expect_failure(run({"reproduce", "table1", "--no-timing"}), 2, {"--no-timing", "--dry-run"});
}

TEST(Reproduce, DryRunTimesTheStepsOfEachKindOfRun) {
  const TemporaryFolder folder;
  const auto out = folder / "out", log = folder / "log";
  Program program({"reproduce", "table1", "--scale", "test", "--rows", "nsvq,simvq", "--seeds",
                   "0,1", "--out", out, "--dry-run"},
                  log);
  EXPECT_EQ(program.wait(), 0);
  const auto text = read_text(log);
  expect_contains(text, {"timing ten steps of simvq (1 of 2", "timing ten steps of nsvq (2 of 2",
                         "timed steps\n", "4 runs for 1 experiment"});
  EXPECT_EQ(text.find("unknown"), std::string::npos) << text;
  EXPECT_FALSE(fs::exists(out));
}

}  // namespace
}  // namespace nsvq
