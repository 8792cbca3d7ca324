// The folder of a run: which one a command means, and what may be written there.

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <tuple>

#include "nsvq/core/error.h"
#include "nsvq/core/interrupt.h"
#include "nsvq/core/temporary_folder.h"
#include "nsvq/io/files/file.h"
#include "nsvq/io/files/folder_checksums.h"
#include "nsvq/io/formats/safetensors.h"
#include "nsvq/io/images/image.h"
#include "nsvq/runs/choice.h"
#include "nsvq/runs/config.h"
#include "nsvq/runs/folder.h"
#include "nsvq/runs/layout/layout.h"
#include "nsvq/tokenizer/open_model.h"
#include "nsvq/train/vq/trainer.h"
#include "tests/expect_contains.h"
#include "tests/reset_signals.h"
#include "tests/train/run_traces.h"
#include "tests/train/tiny.h"

namespace nsvq {
namespace {

namespace fs = std::filesystem;

TokenizerConfig small_run() {
  auto config = tiny_config();
  config.train.epochs = 2;
  config.checkpoint.every_steps = 1;
  return config;
}

/// Trains until a signal after `steps`, or to the end.
Outcome train_in(const TokenizerConfig& config, const fs::path& folder, Start start = Start::fresh,
                 int64_t steps = -1) {
  reset_signals();
  catch_interrupts();
  Trainer trainer(config, folder, make_single_group(), start);
  trainer.loop().on_step([=](const RunState& state) {
    if (state.step == steps) raise(SIGTERM);
  });
  const auto outcome = trainer.loop().train();
  catch_interrupts();  // forgets the signal
  return outcome;
}

/// What a UserError says.
template <typename Call>
std::string refusal_of(const Call& call) {
  try {
    call();
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

/// Tests run in a folder of their own.
class RunFolder : public testing::Test {
 protected:
  void SetUp() override { fs::current_path(folder_.path()); }
  void TearDown() override { fs::current_path(before_); }

  const fs::path before_ = fs::current_path();
  TemporaryFolder folder_;
};

/// `cp -al run snapshot`: going on with the run is not to change the copy.
TEST_F(RunFolder, ASnapshotByHardLinksStaysAsItIs) {
  const auto config = small_run();
  train_in(config, "run", Start::fresh, 2);
  fs::copy("run", "snapshot", fs::copy_options::recursive | fs::copy_options::create_hard_links);
  const auto files = [](const fs::path& folder) {
    std::map<std::string, std::string> texts;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      if (entry.is_regular_file()) texts[entry.path().string()] = read_text(entry.path());
    }
    return texts;
  };
  const auto before = files("snapshot");
  train_in(config, "run", Start::resume);
  const auto after = files("snapshot");
  ASSERT_EQ(after.size(), before.size());
  for (const auto& [name, text] : before) EXPECT_TRUE(after.at(name) == text) << name;
  train_in(config, "snapshot", Start::resume);
  EXPECT_EQ(timeless_metrics("run"), timeless_metrics("snapshot"));
}

TEST_F(RunFolder, AForgedStateNamesNoOtherFile) {
  const auto config = small_run();
  train_in(config, "run", Start::fresh, 2);
  write_text("precious", "text");
  const auto checkpoint = list_checkpoints("run").back();
  const auto state = nlohmann::json::parse(read_text(checkpoint / "state.json"));
  for (const auto& name : {(folder_ / "precious").string(), std::string("../precious"),
                           std::string("events.out.tfevents./../../precious"),
                           std::string("metrics.jsonl"), std::string(".")}) {
    auto forged = state;
    forged["events"] = name;
    forged["events_length"] = 0;
    write_text(checkpoint / "state.json", forged.dump());
    fs::remove(checkpoint / "manifest.json");
    write_checksums(checkpoint);
    expect_contains(refusal_of([&] { train_in(config, "run", Start::resume); }),
                    {"state.json", "events", "not the name of an event file"});
    EXPECT_EQ(read_text("precious"), "text");
  }
}

TEST_F(RunFolder, AForgedCheckpointIsOneLine) {
  auto config = small_run();
  config.drift.images = 4;
  config.drift.every_steps = 1;
  train_in(config, "run", Start::fresh, 2);
  const auto checkpoint = list_checkpoints("run").back();
  const auto seal = [&] {
    fs::remove(checkpoint / "manifest.json");
    write_checksums(checkpoint);
  };
  const auto state = nlohmann::json::parse(read_text(checkpoint / "state.json"));
  const std::vector<std::tuple<std::string, nlohmann::json, std::string>> forgeries = {
      {"/step", INT64_MAX, "step"},
      {"/step", 7, "rename"},
      {"/epoch", INT64_MAX, "epoch"},
      {"/epoch", 1000, "epoch"},
      {"/batch", INT64_MAX, "batch"},
      {"/batch", 2000, "batch"},
      {"/used", INT64_MAX, "used"},
      {"/used", 23, "batch"},
      {"/task/phase", -1, "task.phase"},
      {"/task/phase", 99, "task.phase"},
      {"/task/phase", 0.5, "task.phase"},
      {"/task/phase_start", "x", "task.phase_start"},
      {"/task/best_epoch", 1.5, "task.best_epoch"}};
  for (const auto& [key, value, named] : forgeries) {
    auto forged = state;
    forged[nlohmann::json::json_pointer(key)] = value;
    write_text(checkpoint / "state.json", forged.dump());
    seal();
    SCOPED_TRACE(key + " " + value.dump());
    expect_contains(refusal_of([&] { train_in(config, "run", Start::resume); }),
                    {"run", "state.json", named});
  }
  write_text(checkpoint / "state.json", state.dump());
  const auto training = read_safetensors(checkpoint / "training.safetensors");
  const auto latents = training.tensors.at("drift.latents");
  const std::vector<std::pair<std::string, torch::Tensor>> other = {
      {"epoch.0.loss", at::zeros({})},
      {"epoch.0.loss", at::zeros({2}, at::kLong)},
      {"step.x", at::zeros({2})},
      {"drift.latents", at::zeros({3})},
      {"drift.latents", latents.to(at::kLong)},
      {"drift.indices", at::zeros({4})},
      {"drift.indices", training.tensors.at("drift.indices").to(at::kFloat)}};
  for (const auto& [name, tensor] : other) {
    auto forged = training;
    forged.tensors[name] = tensor;
    write_safetensors(checkpoint / "training.safetensors", forged);
    seal();
    SCOPED_TRACE(name);
    expect_contains(refusal_of([&] { train_in(config, "run", Start::resume); }),
                    {"run: training.safetensors: " + name});
  }
  write_safetensors(checkpoint / "training.safetensors", training);
  seal();
  EXPECT_TRUE(train_in(config, "run", Start::resume).finished);
}

TEST_F(RunFolder, ARunOfOtherSettingsIsRefusedBeforeAnythingIsMade) {
  auto config = small_run();
  train_in(config, "run", Start::fresh, 2);
  config.data.train = "nowhere";  // would be opened with the images, and these come first
  config.data.size = 4096;
  expect_contains(refusal_of([&] { train_in(config, "run", Start::resume); }),
                  {"another configuration", "data.size"});
}

TEST_F(RunFolder, ANewRunDoesNotMixWithOtherFiles) {
  write_text("photos/cat/1.png", "a picture");
  expect_contains(refusal_of([] { train_in(small_run(), "photos"); }),
                  {"photos", "holds other files (cat)", "--run"});
  EXPECT_FALSE(fs::exists("photos/config.yaml"));
  EXPECT_FALSE(fs::exists("photos/checkpoints"));
}

TEST_F(RunFolder, ACheckpointThatCannotBeOpenedIsNoReasonToGoBack) {
  const auto config = small_run();
  train_in(config, "run", Start::fresh, 3);
  const auto model = list_checkpoints("run").back() / "model.safetensors";
  fs::remove(model);
  fs::create_symlink("model.safetensors", model);  // to itself, which not even root can open
  expect_contains(refusal_of([&] { train_in(config, "run", Start::resume); }),
                  {"cannot read", "model.safetensors"});
}

TEST_F(RunFolder, DamagedCheckpointsDoNotPushOutGoodOnes) {
  auto config = small_run();
  config.checkpoint.keep = 1;
  train_in(config, "run", Start::fresh, 3);
  const fs::path checkpoints = "run/checkpoints";
  fs::copy(checkpoints / "step-3", checkpoints / "step-5");
  fs::resize_file(checkpoints / "step-5" / "model.safetensors", 1000);
  fs::create_directory(checkpoints / "step-999999");
  train_in(config, "run", Start::resume, 4);
  EXPECT_EQ(newest_checkpoint("run"), checkpoints / "step-4");
  EXPECT_FALSE(fs::exists(checkpoints / "step-3"));
  EXPECT_TRUE(train_in(config, "run", Start::resume).finished);
  EXPECT_EQ(newest_checkpoint("run"), checkpoints / "step-6");
  EXPECT_FALSE(fs::exists(checkpoints / "step-5"));
  // One of another step by its name would be taken for the newest for ever.
  fs::remove(checkpoints / "step-999999");
  fs::rename(checkpoints / "step-6", checkpoints / "step-999999");
  expect_contains(refusal_of([&] { train_in(config, "run", Start::resume); }),
                  {"step-999999", "rename the folder to step-6"});
}

TEST_F(RunFolder, NothingIsWrittenThroughLinks) {
  const auto config = small_run();
  for (const auto* name :
       {"metrics.jsonl", "samples", "checkpoints", ".lock", "config.yaml", "report.html"}) {
    SCOPED_TRACE(name);
    const fs::path run = std::string("run-with-") + name;
    train_in(config, run, Start::fresh, 2);
    const auto elsewhere = folder_ / (std::string("elsewhere-") + name);
    if (fs::exists(run / name)) {
      fs::rename(run / name, elsewhere);
    } else {
      write_text(elsewhere, "text");
    }
    const bool file = fs::is_regular_file(elsewhere);
    const auto text = file ? read_text(elsewhere) : "";
    fs::create_symlink(elsewhere, run / name);
    expect_contains(refusal_of([&] { train_in(config, run, Start::resume); }), {name, "link"});
    if (file) EXPECT_EQ(read_text(elsewhere), text);
  }
  const auto run = fs::path("run-with-events");
  train_in(config, run, Start::fresh, 2);
  for (const auto& entry : fs::directory_iterator(run)) {
    if (!is_event_file(entry.path().filename())) continue;
    fs::rename(entry.path(), "precious");
    fs::create_symlink(folder_ / "precious", entry.path());
    break;
  }
  const auto text = read_text("precious");
  EXPECT_THROW(train_in(config, run, Start::resume), RunError);
  EXPECT_EQ(read_text("precious"), text);
}

TEST_F(RunFolder, TheLockComesBeforeAnythingElse) {
  const auto config = small_run();
  train_in(config, "run", Start::fresh, 2);
  const auto lock = lock_run("run");
  for (const auto& folder : list_checkpoints("run")) fs::remove_all(folder);
  testing::internal::CaptureStderr();
  expect_contains(refusal_of([&] { train_in(config, "run", Start::resume); }), {"another process"});
  expect_contains(refusal_of([&] { choose_run(match_of(config), {.folder = "run"}); }),
                  {"another process"});
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "") << "one line, the error's";
}

TEST_F(RunFolder, ACommandFindsItsOwnRunAmongAll) {
  const auto config = small_run();
  auto other = config;
  other.seed = 6;
  train_in(config, "runs/a", Start::fresh, 2);
  train_in(other, "runs/a-2", Start::fresh, 2);
  train_in(other, "runs/a-7", Start::fresh, 2);
  EXPECT_EQ(choose_run(match_of(config), {.name = "a"}).folder, "runs/a");
  EXPECT_EQ(choose_run(match_of(config), {.name = "a", .resume = true}).folder, "runs/a");
  EXPECT_EQ(choose_run(match_of(other), {.name = "a"}).folder, "runs/a-7") << "the newest of two";
  EXPECT_EQ(choose_run(match_of(config), {.name = "a", .fresh = true}).folder, "runs/a-8");
  {
    const auto training = choose_run(match_of(config), {.name = "a"});
    ASSERT_TRUE(training.lock);
    EXPECT_EQ(choose_run(match_of(config), {.name = "a"}).folder, "runs/a-8")
        << "it is being trained";
  }
  auto more_images = config;
  more_images.data.train = "builtin:dead-leaves?size=16&count=48";
  EXPECT_EQ(choose_run(match_of(more_images), {.name = "a"}).start, Start::fresh);
  EXPECT_EQ(choose_run(match_of(config), {.name = "a-2"}).start, Start::fresh) << "of another name";
  write_text("runs/a-7/config.yaml", "not: a: recipe");
  EXPECT_EQ(choose_run(match_of(other), {.name = "a"}).folder, "runs/a-2");

  train_in(config, "runs/a", Start::resume);
  testing::internal::CaptureStderr();
  EXPECT_EQ(choose_run(match_of(config), {.name = "a"}).start, Start::fresh) << "it is finished";
  const auto said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 2) << said;  // the first passes over a-7
  expect_contains(said, {"runs/a: the run with these settings is finished", "nsvq info runs/a",
                         "a new one starts in runs/a-8"});
  testing::internal::CaptureStderr();
  choose_run(match_of(config), {.name = "a", .fresh = true});
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "") << "it was asked for";
  auto shorter = config, longer = config;
  shorter.train.epochs = 1;
  longer.train.epochs = 3;
  EXPECT_EQ(choose_run(match_of(shorter), {.name = "a"}).start, Start::fresh);
  EXPECT_EQ(choose_run(match_of(longer), {.name = "a"}).start, Start::fresh) << "its result stays";
  EXPECT_EQ(choose_run(match_of(longer), {.name = "a", .resume = true}).folder, "runs/a");
}

TEST_F(RunFolder, CheckpointsAloneAreARun) {
  const auto config = small_run();
  train_in(config, "run", Start::fresh, 2);
  train_in(config, "whole");
  fs::remove("run/config.yaml");
  EXPECT_TRUE(holds_run("run"));
  expect_contains(refusal_of([&] { train_in(config, "run"); }), {"already holds a run"});
  EXPECT_EQ(to_yaml(load_run_config("run")), to_yaml(config));
  EXPECT_EQ(load_run_config("run", {"train.epochs=9"}).train.epochs, 9);
  EXPECT_EQ(choose_run(match_of(config), {.folder = "run"}).start, Start::resume);
  auto other = config;
  other.seed = 6;
  expect_contains(refusal_of([&] { choose_run(match_of(other), {.folder = "run"}); }), {"seed"});
  EXPECT_TRUE(train_in(config, "run", Start::resume).finished);
  expect_same_runs("whole", "run");
}

TEST_F(RunFolder, AFinishedRunKeepsItsSettings) {
  auto config = small_run();
  train_in(config, "run");
  const auto settings = read_text("run/config.yaml");
  config.train.epochs = 1;
  train_in(config, "run", Start::resume);
  EXPECT_EQ(read_text("run/config.yaml"), settings);
  config.train.epochs = 3;
  train_in(config, "run", Start::resume);
  EXPECT_EQ(load_run_config("run").train.epochs, 3);
}

TEST_F(RunFolder, StoredPathsDoNotDependOnTheCurrentFolder) {
  TokenizerConfig config;
  config.data.train = "photos/{a,b}.tar";
  config.data.val = "~/val";
  config.train.init_from = "runs/other";
  const std::string home = std::getenv("HOME") ? std::getenv("HOME") : "";
  setenv("HOME", "/home/someone", 1);
  const auto stored = with_absolute_paths(with_home(config));
  setenv("HOME", home.c_str(), 1);
  EXPECT_EQ(stored.data.train, (fs::current_path() / "photos/{a,b}.tar").string());
  EXPECT_EQ(stored.data.val, "/home/someone/val");
  EXPECT_EQ(stored.train.init_from, (fs::current_path() / "runs/other").string());
  EXPECT_EQ(with_absolute_paths(stored).data.train, stored.data.train);
  const TokenizerConfig builtin;
  EXPECT_EQ(to_yaml(with_absolute_paths(with_home(builtin))), to_yaml(builtin));
}

TEST_F(RunFolder, ARunGoesOnFromAnotherFolder) {
  auto config = small_run();
  for (int i = 0; i < 8; ++i) {
    const auto shade = static_cast<uint8_t>(20 * i);
    write_image(fmt::format("photos/{}.png", i),
                {16, 16, std::vector<uint8_t>(16 * 16 * 3, shade)});
  }
  config.data.train = config.data.val = "photos";
  train_in(config, "run", Start::fresh, 1);
  const auto run = fs::absolute("run");
  fs::create_directory("elsewhere");
  fs::current_path("elsewhere");
  EXPECT_TRUE(train_in(load_run_config(run), run, Start::resume).finished);
}

TEST_F(RunFolder, WhatAKilledProcessLeftIsRemoved) {
  const auto config = small_run();
  train_in(config, "run", Start::fresh, 2);
  for (const auto* name : {".config.yaml.tmp-1-1", ".report.html.tmp-1-2", "samples/.epoch.tmp-1-3",
                           "checkpoints/.step-3.tmp-1-4/model.safetensors"}) {
    write_text(fs::path("run") / name, "half");
  }
  std::ofstream("run/metrics.jsonl", std::ios::app) << R"({"kind":"st)";
  train_in(config, "run", Start::resume);
  for (const auto& entry : fs::recursive_directory_iterator("run")) {
    EXPECT_EQ(entry.path().string().find(".tmp-"), std::string::npos) << entry.path();
  }
  train_in(config, "whole");
  expect_same_runs("whole", "run");
}

/// A power cut may take bytes that a checkpoint counts on.
TEST_F(RunFolder, ATornLineIsCut) {
  const auto config = small_run();
  train_in(config, "run", Start::fresh, 4);
  fs::resize_file("run/metrics.jsonl", fs::file_size("run/metrics.jsonl") - 20);
  train_in(config, "run", Start::resume);
  EXPECT_NO_THROW(timeless_metrics("run"));
}

}  // namespace
}  // namespace nsvq
