// Settings data.split: what is trained on, validated on and refused as evidence.

#include "nsvq/data/data_config.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "nsvq/settings/option_table.h"
#include "tests/data/files.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"

namespace nsvq {
namespace {

using testing_files::TempFolder;
using Texts = std::vector<std::string>;

OptionTable table_of(DataConfig& data) {
  OptionTable table;
  table.rows = data_options(data);
  table.dependent_defaults = [&data] { return data_defaults(data); };
  table.check = [&data] { check_data(data); };
  return table;
}

DataConfig read(const Texts& overrides) {
  DataConfig data;
  table_of(data).load("", overrides);
  return data;
}

std::string printed(const std::function<void()>& action) {
  testing::internal::CaptureStderr();
  action();
  return testing::internal::GetCapturedStderr();
}

TEST(SplitSettings, WithoutASplitAllImagesAreRead) {
  const auto data = read({"data.train=[a, b.tar]", "data.val=c"});
  EXPECT_EQ(training_sources(data).items, (Texts{"a", "b.tar"}));
  EXPECT_EQ(validation_sources(data).items, Texts{"c"});
  EXPECT_EQ(validation_sources(read({"data.train=a", "data.val=a"})).items, Texts{"a"});
  EXPECT_EQ(read({}).val.text(), DataConfig().val.text());
}

TEST(SplitSettings, HoldOutWhatValidationReads) {
  const auto data = read({"data.train=a", "data.split.tune=0.1", "data.split.test=0.25"});
  EXPECT_EQ(data.val.items, Texts{"a#tune"});
  EXPECT_EQ(training_sources(data).items, Texts{"a#0.35..1"});
  EXPECT_EQ(validation_sources(data).items, Texts{"a#0..0.1"});
}

TEST(SplitSettings, EverySourceOfAListIsDivided) {
  const auto data = read(
      {"data.train=[\"a,b\", 'pipe:cat {0..1}', c#0.5..0.7, c#0.8..0.9]", "data.split.tune=0.1"});
  EXPECT_EQ(data.val.items, (Texts{"a,b#tune", "pipe:cat {0..1}#tune", "c#tune"}));
  EXPECT_EQ(training_sources(data).items,
            (Texts{"a,b#0.1..1", "pipe:cat {0..1}#0.1..1", "c#0.5..0.7", "c#0.8..0.9"}));
}

TEST(SplitSettings, OneSourceForBothMeansItsParts) {
  const Texts split = {"data.split.tune=0.1", "data.split.test=0.1", "data.train=photos"};
  const auto val = [&](const std::string& value) {
    auto words = split;
    words.push_back("data.val=" + value);
    return validation_sources(read(words)).items;
  };
  EXPECT_EQ(val("photos"), Texts{"photos#0..0.1"});
  EXPECT_EQ(val("./photos/"), Texts{"./photos/#0..0.1"});
  EXPECT_EQ(val("[photos, others]"), (Texts{"photos#0..0.1", "others"}));
  EXPECT_EQ(val("photos#test"), Texts{"photos#0.1..0.2"});
  EXPECT_EQ(val("photos#all"), Texts{"photos"});
  const auto untuned = read({"data.split.test=0.1", "data.train=photos", "data.val=photos"});
  expect_contains(error_of([&] { validation_sources(untuned); }),
                  {"data.val: photos#tune: data.split.tune is 0"});
}

TEST(SplitSettings, SomeImagesMustBeLeft) {
  expect_contains(error_of([] {
                    read({"data.split.tune=0.5", "data.split.test=0.5"});
                  }),
                  {"data.split", "leave no images to train on"});
  EXPECT_NE(error_of([] { read({"data.split.tune=1"}); }).find("data.split.tune"),
            std::string::npos);
  EXPECT_NE(error_of([] { read({"data.split.test=-0.1"}); }).find("data.split.test"),
            std::string::npos);
}

TEST(SplitSettings, AStoredRecipeReadsBack) {
  auto data = read({"data.train=[a, 'b{0,1}.tar']", "data.split.tune=0.1"});
  const auto yaml = table_of(data).to_yaml();
  DataConfig again;
  table_of(again).parse(yaml, "stored");
  EXPECT_EQ(table_of(again).to_yaml(), yaml);
  EXPECT_EQ(again.val.items, (Texts{"a#tune", "b{0,1}.tar#tune"}));
  DataConfig older;  // recipes may lack the rows
  table_of(older).parse("data:\n  train: a\n  val: b\n", "stored");
  EXPECT_FALSE(older.split.on());
  EXPECT_EQ(older.val.items, Texts{"b"});
}

TEST(SplitSettings, TrainingImagesAreNoEvidence) {
  TempFolder folder;
  const auto photos = folder.text("photos"), others = folder.text("others");
  for (const auto& name : {photos, others}) std::filesystem::create_directory(name);
  const auto refusal = [&](const Sources& judged, const Texts& settings) -> std::string {
    return error_of([&] {
      if (!judges_training_images(judged, "model", read(settings), false)) {
        throw UserError("fine");
      }
    });
  };
  const Texts whole = {"data.train=" + photos, "data.val=" + others};
  EXPECT_EQ(refusal(others, whole), "fine");
  expect_contains(refusal(photos, whole), {"model: ", "trained on images of",
                                           "give --data " + others, "or --on-training-images"});
  const Texts same = {"data.train=" + photos, "data.val=" + photos};
  expect_contains(refusal(photos, same), {"give other images, or --on-training-images"});
  const Texts split = {"data.train=" + photos, "data.split.tune=0.1", "data.split.test=0.1"};
  for (const char* part : {"#test", "#tune", "#0..0.2"})
    EXPECT_EQ(refusal(photos + part, split), "fine");
  for (const char* part : {"", "#train", "#all", "#0.1..0.3"}) {
    expect_contains(refusal(photos + part, split),
                    {"'" + photos + "#test'", "--on-training-images"});
  }
  expect_contains(refusal(photos, {"data.train=" + photos, "data.split.tune=0.1"}),
                  {photos + "#tune"});
  expect_contains(refusal(photos + "#test", {"data.train=" + photos, "data.split.tune=0.1"}),
                  {photos + "#test: data.split.test is 0"});
}

TEST(SplitSettings, TrainingImagesAreJudgedOnPurpose) {
  const auto leaves = read({"data.train=builtin:dead-leaves", "data.val=builtin:dead-leaves"});
  const Sources same = "builtin:dead-leaves?count=3";
  EXPECT_NE(printed([&] {
              EXPECT_TRUE(judges_training_images(same, "model", leaves, true));
            }).find("trained on"),
            std::string::npos);
  auto allowed = leaves;
  allowed.on_training_images = true;
  printed([&] { EXPECT_TRUE(judges_training_images(same, "model", allowed, false)); });
  EXPECT_EQ(printed([&] { warn_of_seen_validation(allowed); }), "");
}

TEST(SplitSettings, TrainingWarnsOfTheSameImages) {
  const auto leaves = read({"data.train=builtin:dead-leaves", "data.val=builtin:dead-leaves"});
  expect_contains(printed([&] { warn_of_seen_validation(leaves); }),
                  {"data.val", "trained on", "data.split.tune"});
  EXPECT_EQ(printed([&] { warn_of_seen_validation(DataConfig()); }), "");
  EXPECT_EQ(
      printed([&] {
        warn_of_seen_validation(read({"data.train=builtin:dead-leaves", "data.split.tune=0.1"}));
      }),
      "");
}

}  // namespace
}  // namespace nsvq
