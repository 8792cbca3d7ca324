// data.split: training, evaluation and resumption on parts of the same images.

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "nsvq/core/temporary_folder.h"
#include "nsvq/data/sources/part.h"
#include "nsvq/io/files/file.h"
#include "nsvq/io/formats/safetensors.h"
#include "nsvq/recipe/tokenizer_config.h"
#include "tests/cli/model_file.h"
#include "tests/cli/run.h"
#include "tests/train/run_traces.h"
#include "tests/train/tiny.h"

namespace nsvq {
namespace {

using nlohmann::json;
using Words = std::vector<std::string>;

class SplitCommands : public testing::Test {
 protected:
  SplitCommands() {
    config_.data.train = config_.data.val = kImages;
    config_.data.split = {0.2, 0.2};
    write_text(recipe_, to_yaml(config_));
  }

  Result train(const std::string& name, const Words& more = {}) {
    Words words = {"train", recipe_, "--run", folder_ / name, "--new"};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  }
  Result eval(const std::string& data, const Words& more = {}) {
    Words words = {"eval", model_, "--data", data, "--json", "-"};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  }
  void write_model() { write_model_file(model_, config_); }

  /// The number of pictures in a part.
  static int64_t count_of(const Part& part) {
    int64_t count = 0;
    for (int i = 0; i < 60; ++i) {
      count += part.contains(fmt::format("dead-leaves/{:06}", i)) ? 1 : 0;
    }
    return count;
  }

  static constexpr auto kImages = "builtin:dead-leaves?size=16&count=60";
  TokenizerConfig config_ = tiny_config();
  TemporaryFolder folder_;
  const std::string recipe_ = folder_ / "split.yaml", model_ = folder_ / "model.safetensors";
};

TEST_F(SplitCommands, TrainingReadsItsPartAndValidationTheTuneHalf) {
  const auto trained = train("run", {"train.epochs=1"});
  ASSERT_EQ(trained.code, 0) << trained.error;
  EXPECT_EQ(trained.error.find("data.val has"), std::string::npos) << trained.error;
  json last;
  for (const auto& line : timeless_metrics(folder_ / "run")) {
    if (line.at("kind") == "step" || line.at("kind") == "epoch") last = line;
  }
  EXPECT_EQ(last.at("step"), count_of({0.4, 1}) / config_.train.batch_size);
  const auto data = std::string(kImages) + "#tune";
  const auto evaluated = run({"eval", folder_ / "run", "--data", data, "--json", "-"});
  ASSERT_EQ(evaluated.code, 0) << evaluated.error;
  EXPECT_EQ(json::parse(evaluated.out).at("images"), count_of({0, 0.2}));
}

TEST_F(SplitCommands, EvaluationRefusesTrainingImages) {
  write_model();
  const std::string all = kImages;
  const auto figures = json::parse(eval(all + "#test").out);
  EXPECT_EQ(figures.at("images"), count_of({0.2, 0.4}));
  EXPECT_FALSE(figures.contains("on_training_images"));
  for (const auto& data :
       {all, all + "#train", std::string("builtin:dead-leaves?size=16&count=3")}) {
    expect_failure(
        eval(data), 2,
        {"trained on images of", "give --data '" + all + "#test'", "--on-training-images"});
  }
  const auto allowed = eval(all + "#train", {"--on-training-images"});
  ASSERT_EQ(allowed.code, 0) << allowed.error;
  EXPECT_EQ(json::parse(allowed.out).at("on_training_images"), true);
  EXPECT_EQ(json::parse(allowed.out).at("images"), count_of({0.4, 1}));
  expect_contains(allowed.error, {"the model was trained on images of"});
  expect_failure(eval(all + "#tset"), 2, {"tset"});
}

TEST_F(SplitCommands, ComparisonRefusesThemBeforeItMeasures) {
  auto other = config_;
  other.data.train = other.data.val = "builtin:dead-leaves?size=16&seed=3";
  write_model();
  const auto second = folder_ / "second.safetensors";
  write_model_file(second, other);
  const std::string test = std::string(kImages) + "#test";
  EXPECT_EQ(run({"compare", model_, second, "--data", test}).code, 0);
  expect_failure(run({"compare", second, model_, "--data", kImages}), 2, {model_, "trained on"});
  EXPECT_EQ(
      run({"compare", second, model_, "--data", kImages, "--limit", "3", "--on-training-images"})
          .code,
      0);
}

TEST_F(SplitCommands, OtherCommandsReadParts) {
  write_model();
  const auto tokens = folder_ / "tokens";
  const auto test = std::string(kImages) + "#test";
  ASSERT_EQ(run({"tokenize", model_, "--data", test, "--out", tokens}).code, 0);
  EXPECT_EQ(json::parse(run({"info", tokens, "--json", "-"}).out).at("images"),
            count_of({0.2, 0.4}));
  expect_failure(run({"images", "compare", test, test}), 2, {"data.split", "give hashes"});
  const auto hashes = std::string(kImages) + "#0.2..0.4";
  EXPECT_EQ(run({"images", "compare", hashes, hashes, "--metrics", "psnr"}).code, 0);
  config_.data.split = {};
  write_model();
  expect_failure(eval(test), 2, {test, "data.split.test is 0"});
}

TEST_F(SplitCommands, AnEmptyPartEndsTraining) {
  expect_failure(train("run", {"data.split.tune=0.0001"}), 2,
                 {"data.val", "#0..0.0001", "no image is in this part"});
}

TEST_F(SplitCommands, EqualImagesWithoutASplitAreTrainedOnWithAWarning) {
  const auto trained = train("run", {"train.steps=1", "data.split.tune=0", "data.split.test=0"});
  ASSERT_EQ(trained.code, 0) << trained.error;
  expect_contains(trained.error, {"data.val has images", "trained on", "data.split.tune"});
  expect_failure(run({"eval", folder_ / "run", "--data", kImages}), 2,
                 {"give other images, or --on-training-images"});
  const auto meant = train("meant", {"train.steps=1", "data.split.tune=0", "data.split.test=0",
                                     "data.on_training_images=true"});
  EXPECT_EQ(meant.error.find("data.val has"), std::string::npos) << meant.error;
  EXPECT_EQ(run({"eval", folder_ / "meant", "--data", kImages}).code, 0);
}

TEST_F(SplitCommands, AResumedRunIsTheUninterruptedOne) {
  const Words images = {std::string("data.train=[") + kImages +
                        ", builtin:dead-leaves?size=16&count=9&seed=4]"};
  const auto with = [&](const std::string& epochs) {
    auto words = images;
    words.push_back("train.epochs=" + epochs);
    return words;
  };
  ASSERT_EQ(train("whole", with("2")).code, 0);
  ASSERT_EQ(train("run", with("1")).code, 0);
  const auto resumed = run({"train", folder_ / "run", "--resume", "train.epochs=2"});
  ASSERT_EQ(resumed.code, 0) << resumed.error;
  const auto tensors = [&](const char* name) {
    return read_safetensors(list_checkpoints(folder_ / name).back() / "model.safetensors").tensors;
  };
  EXPECT_EQ(first_difference(tensors("run"), tensors("whole")), "");
  expect_failure(run({"train", folder_ / "run", "--resume", "data.split.test=0.3"}), 2,
                 {"data.split.test"});
}

TEST_F(SplitCommands, RecipesWithoutASplitAreUnchanged) {
  write_text(recipe_, "seed: 1\n");
  const auto plain = run({"config", recipe_}).out;
  expect_contains(plain, {"val: builtin:dead-leaves?size=64&count=256&seed=1"});
  const auto rows = run({"config", recipe_, "data.train=photos", "data.split.tune=0.1"}).out;
  expect_contains(rows, {"val: \"photos#tune\"", "\ndata.split:\n  tune: 0.1\n  test: 0\n"});
}

}  // namespace
}  // namespace nsvq
