// `nsvq runs`.
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "nsvq/core/temporary_folder.h"
#include "nsvq/io/files/file.h"
#include "nsvq/recipe/tokenizer_config.h"
#include "nsvq/runs/checkpoint.h"
#include "nsvq/runs/folder.h"
#include "nsvq/runs/layout/layout.h"
#include "nsvq/runs/log.h"
#include "nsvq/tokenizer/open_model.h"
#include "tests/cli/log_only_run.h"
#include "tests/cli/run.h"
#include "tests/train/tiny.h"

namespace nsvq {
namespace {

namespace fs = std::filesystem;

/// Runs of two epochs of three steps.
class RunsCommand : public testing::Test {
 protected:
  void SetUp() override {
    auto config = tiny_config();
    config.train.epochs = 2;
    write_text(recipe_, to_yaml(config));
  }

  TemporaryFolder folder_;
  fs::path recipe_ = folder_ / "tiny.yaml";
};

TEST_F(RunsCommand, OneThatEndedAsNotFiniteHasAVerdict) {
  const auto begun = (folder_ / "run").string();
  const auto verdict =
      "diverged (numbers that were not finite ended training at step 4); try a lower optimizer.lr";
  ASSERT_EQ(run({"train", recipe_.string(), "--run", begun, "train.epochs=1"}).code, 0);
  const auto fork = (folder_ / "fork").string();
  const auto failed = run({"train", begun, "--fork", fork, "train.steps=4", "optimizer.lr=1e38"});
  EXPECT_EQ(failed.code, 3);
  expect_contains(failed.error, {std::string("\nverdict: ") + verdict,
                                 "\nnsvq: step 4: ", "the last checkpoint is intact: resume"});
  expect_contains(run({"runs", fork}).out, {"stopped", "diverged"});
  const auto json = nlohmann::json::parse(run({"runs", fork, "--json"}).out);
  EXPECT_TRUE(json[0].at("verdict_text").get<std::string>().starts_with(verdict));
  ASSERT_EQ(run({"report", fork}).code, 0);
  expect_contains(read_text(fs::path(fork) / "report.html"), {verdict});
}

TEST_F(RunsCommand, RunsAreListed) {
  const auto runs = folder_ / "runs";
  ASSERT_EQ(run({"train", recipe_.string(), "--run", (runs / "tiny").string()}).code, 0);
  ASSERT_EQ(run({"train", recipe_.string(), "--run", (runs / "deep/tiny-2").string()}).code, 0);
  fs::create_directories(runs / "no run");
  fs::remove_all(list_checkpoints(runs / "deep/tiny-2").back());
  const auto listed = run({"runs", runs.string(), "--json"});
  ASSERT_EQ(listed.code, 0) << listed.error;
  const auto json = nlohmann::json::parse(listed.out);
  ASSERT_EQ(json.size(), 2u);
  EXPECT_EQ(json[0].at("path"), (runs / "deep/tiny-2").string());
  EXPECT_EQ(json[0].at("state"), "stopped");
  EXPECT_EQ(json[0].at("step"), 3);
  EXPECT_EQ(json[1].at("name"), "tiny");
  EXPECT_EQ(json[1].at("state"), "finished");
  EXPECT_EQ(json[1].at("step"), 6);
  EXPECT_EQ(json[1].at("total_steps"), 6);
  const auto word = json[1].at("verdict").get<std::string>();
  EXPECT_FALSE(word.empty());
  EXPECT_TRUE(json[1].at("verdict_text").get<std::string>().starts_with(word + " ("));
  EXPECT_EQ(json[0].at("verdict"), "") << "it has not finished";
  expect_contains(run({"runs", runs.string()}).out, {"verdict", word});
  nlohmann::json evaluation;  // the last one in the log
  std::istringstream log(read_text(runs / "tiny/metrics.jsonl"));
  for (std::string line; std::getline(log, line);) {
    const auto entry = nlohmann::json::parse(line);
    if (entry.at("kind") == "eval") evaluation = entry;
  }
  EXPECT_NEAR(json[1].at("evaluation").at("psnr").get<double>(),
              evaluation.at("psnr").get<double>(), 1e-4);
  EXPECT_GT(json[1].at("bytes").get<int64_t>(), 10000);
  EXPECT_EQ(json[1].at("evaluation").at("images").dump(), "7");

  const auto lock = lock_run(runs / "tiny");
  const auto table = run({"runs", runs.string()});
  expect_contains(table.out, {"tiny", "running", "stopped", "3 of 6", "6 of 6", "kB"});
  expect_contains(run({"runs", (runs / "tiny").string()}).out, {"running"});
  expect_failure(run({"runs", (runs / "no run").string()}), 2, {"no runs"});
  expect_failure(run({"runs", (folder_ / "missing").string()}), 2, {"missing"});
  EXPECT_EQ(run({"runs", (runs / "no run").string(), "--json", "-"}).out, "[]\n");
  EXPECT_EQ(run({"runs", "--json", (runs / "no run").string()}).out, "[]\n");

  // Numbers of one run that nobody can have written do not keep the others from being listed.
  const auto state_file = list_checkpoints(runs / "deep/tiny-2").back() / "state.json";
  auto state = nlohmann::json::parse(read_text(state_file));
  const auto listed_again = [&] {
    return nlohmann::json::parse(run({"runs", runs.string(), "--json"}).out);
  };
  for (const char* wrong : {"9223372036854775807", "1e300", "1.5", "\"3\"", "-1"}) {
    state["step"] = nlohmann::json::parse(wrong);
    write_text(state_file, state.dump());
    const auto all = listed_again();
    ASSERT_EQ(all.size(), 2u);
    EXPECT_EQ(all[0].at("state"), "damaged");
    expect_contains(all[0].at("problem").get<std::string>(), {"state.json", "step"});
    EXPECT_FALSE(all[1].contains("problem"));
  }
}

TEST_F(RunsCommand, ADamagedCheckpointDoesNotHideThoseBeforeIt) {
  const auto run_folder = folder_ / "run";
  ASSERT_EQ(run({"train", recipe_.string(), "--run", run_folder.string()}).code, 0);
  const auto good = list_checkpoints(run_folder).back();
  const auto left = run_folder / "checkpoints/step-999999";
  const auto expect_listed = [&](const std::string& what) {
    SCOPED_TRACE(what);
    const auto table = run({"runs", run_folder.string()});
    expect_contains(table.out, {"finished", "6 of 6"});
    expect_contains(table.error, {"step-999999", "step and figures are those of step-6"});
    const auto json = nlohmann::json::parse(run({"runs", run_folder.string(), "--json"}).out);
    EXPECT_EQ(json[0].at("state"), "finished");
    EXPECT_EQ(json[0].at("step"), 6);
    expect_contains(json[0].at("problem").get<std::string>(), {"step-999999", what});
  };
  fs::create_directories(left);
  expect_listed("state.json");
  fs::copy_file(good / "state.json", left / "state.json");
  expect_listed("manifest.json");
  fs::remove_all(left);
  fs::copy(good, left);
  fs::resize_file(left / "training.safetensors", 100);
  expect_listed("training.safetensors has 100 bytes");
  fs::remove_all(left);
  fs::copy(good, left);
  write_text(left / "state.json", "{");
  expect_listed("state.json");
}

// Users remove it to save room: the model can be used, but not trained on.
TEST_F(RunsCommand, ARunWithoutItsTrainingStateIsListed) {
  const auto run_folder = folder_ / "run";
  ASSERT_EQ(run({"train", recipe_.string(), "--run", run_folder.string()}).code, 0);
  for (const auto& checkpoint : list_checkpoints(run_folder)) {
    fs::remove(checkpoint / "training.safetensors");
  }
  const auto table = run({"runs", run_folder.string()});
  expect_contains(table.out, {"finished", "6 of 6"});
  expect_contains(table.error, {"step-6", "training.safetensors is missing"});
}

TEST_F(RunsCommand, AReproducedRunIsNamedByTheFolderAroundIt) {
  const auto name_of = [](const fs::path& folder) {
    return nlohmann::json::parse(run({"runs", folder.string(), "--json"}).out).at(0).at("name");
  };
  const auto around = folder_ / "nsvq-3e9ffd1b10";
  put_run(around / "run");
  EXPECT_EQ(name_of(around), "run") << "of somebody who called it so";
  write_text(around / "recipe.yaml", "seed: 1\n");  // that of `nsvq reproduce`
  EXPECT_EQ(name_of(around), "nsvq-3e9ffd1b10");
  EXPECT_EQ(name_of(around / "run/"), "nsvq-3e9ffd1b10");
}

TEST_F(RunsCommand, ARunOfAFixedLengthIsListedWithItBeforeItsFirstCheckpoint) {
  auto config = tiny_config();
  const auto run_of = [&](const std::string& name) { return folder_ / "runs" / name; };
  write_text(run_of("by-epochs") / "config.yaml", to_yaml(config));
  config.train.steps = 44;
  write_text(run_of("by-steps") / "config.yaml", to_yaml(config));
  expect_contains(run({"runs", folder_ / "runs"}).out, {"0 of ?", "0 of 44"});
}

TEST_F(RunsCommand, TheTotalAfterAnEpochThatWasCutIsThatOfTraining) {
  const auto run_folder = (folder_ / "run").string();
  ASSERT_EQ(run({"train", recipe_.string(), "train.steps=4", "--run", run_folder}).code, 0);
  expect_contains(run({"runs", run_folder}).out, {"4 of 4"});
  std::vector<bool> cut;
  const auto log = read_run_log(fs::path(run_folder) / "metrics.jsonl");
  for (const auto* epoch : log.of_kind("epoch")) {
    cut.push_back(epoch->values.contains("cut"));
  }
  EXPECT_EQ(cut, (std::vector<bool>{false, true}));
  const auto longer = run({"train", run_folder, "--resume", "train.steps=0", "train.epochs=4",
                           "checkpoint.every_steps=1", "checkpoint.keep=100"});
  ASSERT_EQ(longer.code, 0) << longer.error;
  // The second epoch had one step of three.
  expect_contains(longer.error, {"3 an epoch, 10 in all", "ended within an epoch"});
  for (const auto* done : {"10", "9", "8", "7", "6", "5"}) {
    const auto listed = run({"runs", run_folder}).out;
    EXPECT_NE(listed.find(fmt::format("{} of 10", done)), std::string::npos) << listed;
    fs::remove_all(list_checkpoints(run_folder).back());
  }
}

TEST_F(RunsCommand, ALogThatCannotBeReadIsSaid) {
  const auto run_folder = folder_ / "run";
  ASSERT_EQ(run({"train", recipe_.string(), "train.epochs=1", "--run", run_folder.string()}).code,
            0);
  std::ofstream(run_folder / "metrics.jsonl", std::ios::app) << "[[[[\n";
  const auto listed = run({"runs", run_folder.string()});
  EXPECT_EQ(listed.code, 0);
  expect_contains(listed.error, {"metrics.jsonl: its last line is no record of a run"});
}

}  // namespace
}  // namespace nsvq
