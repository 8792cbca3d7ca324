#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "nsvq/cli/program/command.h"
#include "nsvq/core/temporary_folder.h"
#include "nsvq/io/files/file.h"
#include "nsvq/io/images/image.h"
#include "nsvq/recipe/tokenizer_config.h"
#include "nsvq/tokenizer/open_model.h"
#include "tests/cli/run.h"
#include "tests/train/tiny.h"

namespace nsvq {
namespace {

namespace fs = std::filesystem;

void expect_user_error(const Result& result, const std::vector<std::string>& words) {
  expect_failure(result, 2, words);
}

class Cli : public testing::Test {
 protected:
  void SetUp() override { write_text(recipe_, to_yaml(tiny_config())); }

  TemporaryFolder folder_;
  std::string recipe_ = (folder_.path() / "tiny.yaml").string();
  std::string run_ = (folder_.path() / "a run").string();  // A path with a space.
};

/// Mean PSNR of pictures that show an image on the left and its reconstruction on the right.
double psnr_of_pairs(const fs::path& folder) {
  double sum = 0;
  int pictures = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != ".png") continue;
    const auto picture = read_image(entry.path());
    const size_t half = size_t{3} * static_cast<size_t>(picture.width) / 2;
    double error = 0;
    for (size_t i = 0; i < picture.pixels.size(); ++i) {
      if (i / half % 2 == 1) continue;
      const double difference = picture.pixels[i] - picture.pixels[i + half];
      error += difference * difference;
    }
    sum += 10 * std::log10(255.0 * 255.0 * static_cast<double>(picture.pixels.size() / 2) / error);
    ++pictures;
  }
  return sum / pictures;
}

TEST_F(Cli, HelpAndVersionOnEverything) {
  EXPECT_EQ(run({"--version"}).code, 0);
  EXPECT_EQ(run({"--version"}).out.rfind("nsvq ", 0), 0u);
  for (const auto& command : commands()) {
    EXPECT_NE(run({"--help"}).out.find(command.name), std::string::npos);
    const auto help = run({command.name, "--help"});
    EXPECT_EQ(help.code, 0);
    EXPECT_NE(help.out.find(command.summary), std::string::npos);
  }
}

TEST_F(Cli, TrainEvaluateReconstructInform) {
  const auto trained = run({"train", recipe_, "train.epochs=2", "--run", run_});
  ASSERT_EQ(trained.code, 0) << trained.error;
  EXPECT_NE(trained.out.find("psnr"), std::string::npos);
  EXPECT_NE(trained.out.find("report.html"), std::string::npos);
  EXPECT_NE(trained.out.find("\n  verdict: "), std::string::npos) << trained.out;
  EXPECT_EQ(trained.out.find('\n', trained.out.find("verdict: ")), trained.out.size() - 1)
      << "it is the last line";

  const auto json = (folder_.path() / "figures.json").string();
  const auto data = tiny_config().data.val.text();
  const auto evaluated = run({"eval", run_, "--data", data, "--json", json});
  ASSERT_EQ(evaluated.code, 0) << evaluated.error;
  const auto figures = nlohmann::json::parse(read_text(json));
  const auto pairs = folder_.path() / "pairs";
  ASSERT_EQ(run({"reconstruct", run_, "--data", data, "--pairs", "--out", pairs.string()}).code, 0);
  EXPECT_NEAR(figures.at("psnr").get<double>(), psnr_of_pairs(pairs), 1e-3);
  EXPECT_EQ(figures.at("images"), 7);
  EXPECT_GT(figures.at("utilisation").get<double>(), 0);

  const auto grid = (folder_.path() / "grid.png").string();
  ASSERT_EQ(run({"reconstruct", run_, "--data", data, "--out", grid, "--limit", "3"}).code, 0);
  EXPECT_GE(read_image(grid).width, 48);
  const auto out = folder_.path() / "pictures";
  ASSERT_EQ(run({"reconstruct", run_, "--data", data, "--out", out.string()}).code, 0);
  int files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(out)) {
    files += entry.is_regular_file() && entry.path().extension() == ".png";
  }
  EXPECT_EQ(files, 7);
  expect_user_error(
      run({"reconstruct", run_, "--data", data, "--out", out.string(), "--limit", "3"}),
      {"was made with other settings: limit 0 there, 3 now"});
  expect_user_error(run({"reconstruct", run_, "--data", data, "--out", folder_.path().string()}),
                    {"not an empty folder"});

  const auto info = run({"info", run_});
  EXPECT_EQ(info.code, 0);
  EXPECT_NE(info.out.find("step         6"), std::string::npos) << info.out;
}

TEST_F(Cli, WhatARunThatGoesOnMakesOfChangesIsSaid) {
  const auto train = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"train", recipe_, "optimizer.schedule.shape=cosine", "--run",
                                      run_};
    words.insert(words.end(), more.begin(), more.end());
    const auto result = run(words);
    EXPECT_EQ(result.code, 0) << result.error;
    return result.error;
  };
  const std::string moved = "the budget changed", start = "train.init_from has no effect";
  train({"train.steps=2"});
  const auto longer = train({"train.steps=3", "--resume"});
  expect_contains(longer, {moved});
  EXPECT_EQ(longer.find(start), std::string::npos);
  const auto again = train({"train.steps=3", "--resume", "train.init_from=" + run_});
  expect_contains(again, {start});
  EXPECT_EQ(again.find(moved), std::string::npos);
}

TEST_F(Cli, OfAFinishedRunIsSaidThatNothingIsToDo) {
  ASSERT_EQ(run({"train", recipe_, "train.epochs=2", "--run", run_}).code, 0);
  for (const auto* budget : {"train.epochs=2", "train.epochs=1"}) {
    const auto again = run({"train", recipe_, budget, "--run", run_});
    ASSERT_EQ(again.code, 0) << again.error;
    expect_contains(again.error, {"training 6/6 steps: complete already, nothing to do"});
    EXPECT_EQ(again.error.find("steps/s"), std::string::npos) << again.error;
    expect_contains(again.out, {"  verdict: "});
  }
}

TEST_F(Cli, ConfigPrintsWhatTrainWouldUse) {
  const auto printed = run({"config", recipe_, "train.epochs=7"});
  EXPECT_EQ(printed.code, 0);
  auto expected = tiny_config();
  expected.train.epochs = 7;
  EXPECT_EQ(printed.out, to_yaml(expected));
  EXPECT_NE(run({"config", "--reference"}).out.find("checkpoint.every_steps"), std::string::npos);
  // Settings for another machine: whether this one's device has the precision is not asked.
  const auto elsewhere = run({"config", recipe_, "train.precision=tf32", "adversarial.weight=0.1",
                              "adversarial.layers=1"});
  EXPECT_EQ(elsewhere.code, 0) << elsewhere.error;
}

TEST_F(Cli, MistakesGetOneLine) {
  expect_user_error(run({"trian"}), {"trian", "did you mean 'train'"});
  expect_user_error(run({"train"}), {"CONFIG"});
  expect_user_error(run({"train", recipe_, "--rum", run_}), {"--rum"});
  expect_user_error(run({"train", recipe_, "train.epoch=3"}), {"train.epoch", "train.epochs"});
  expect_user_error(run({"train", recipe_, "train.epochs=many"}), {"train.epochs", "many"});
  expect_user_error(run({"train", recipe_, "train.epochs=0"}), {"train.epochs", "0"});
  expect_user_error(run({"train", recipe_, "quantizer.type=nsqv", "--run", run_}), {"nsvq"});
  expect_user_error(run({"train", "missing.yaml"}), {"missing.yaml"});
  expect_user_error(run({"eval", run_, "--data", "builtin:dead-leaves"}), {run_});
  expect_user_error(run({"config"}), {"--reference"});
  expect_user_error(run({"info", recipe_}), {recipe_});
  EXPECT_FALSE(fs::exists(run_));
}

TEST_F(Cli, MissingImagesNameTheLayoutsThatAreRead) {
  for (const std::string key : {"data.train", "data.val"}) {
    expect_user_error(
        run({"train", recipe_, key + "=" + (folder_ / "none").string(), "--run", run_}),
        {key + ": '" + (folder_ / "none").string() + "' does not exist; set " + key +
         "=PATH to a folder of pictures, tar shards ('a-{00..03}.tar') or "
         "builtin:dead-leaves"});
  }
}

TEST_F(Cli, DamagedModelFilesGetOneLine) {
  ASSERT_EQ(run({"train", recipe_, "train.epochs=1", "--run", run_}).code, 0);
  const auto good = read_file(open_model_file(run_).path);
  const auto path = folder_.path() / "model.safetensors";
  auto wrong_magic = good;
  for (int i = 0; i < 16; ++i) wrong_magic[i] = std::byte{0x5a};
  auto huge_header = good;
  for (int i = 0; i < 7; ++i) huge_header[i] = std::byte{0xff};
  const std::vector<std::vector<std::byte>> damaged = {
      {},
      {good.begin(), good.begin() + 5},
      {good.begin(), good.begin() + good.size() / 2},
      wrong_magic,
      huge_header};
  for (const auto& bytes : damaged) {
    write_file(path, bytes);
    expect_user_error(run({"eval", path.string(), "--data", "builtin:dead-leaves?size=16&count=2"}),
                      {path.string()});
    expect_user_error(run({"info", path.string()}), {path.string()});
  }
}

TEST_F(Cli, IncompleteVariablesOfALauncherAreRefused) {
  setenv("WORLD_SIZE", "2", 1);
  expect_user_error(run({"train", recipe_, "--run", run_}), {"RANK"});
  unsetenv("WORLD_SIZE");
}

}  // namespace
}  // namespace nsvq
