// Values that the chosen member of a family cannot use: which give way, and which are the user's.

#include <gtest/gtest.h>

#include <fstream>

#include "nsvq/core/error.h"
#include "nsvq/core/temporary_folder.h"
#include "nsvq/settings/option_table.h"
#include "tests/expect_contains.h"

namespace nsvq {
namespace {

struct Lamp {
  std::string kind = "bulb";
  bool dimmed = false;
  int64_t watts = 40;
  std::string shade = "paper";
};

/// A candle cannot be dimmed and has one watt.
OptionTable lamp_options(Lamp& lamp) {
  OptionTable table;
  table.rows = {
      {"lamp.kind", &lamp.kind, "what gives light", Range::one_of({"bulb", "candle"})},
      {"lamp.dimmed", &lamp.dimmed, "less light", Range::yes_no()},
      {"lamp.watts", &lamp.watts, "power", Range::at_least(1)},
      {"lamp.shade", &lamp.shade, "around it", Range::one_of({"paper", "glass"})},
  };
  table.chooser = "lamp.kind";
  table.unusable = [&lamp] {
    std::vector<Unusable> unusable;
    if (lamp.kind == "candle" && lamp.dimmed) {
      unusable.push_back({"lamp.dimmed", "false", "a candle cannot be dimmed"});
    }
    if (lamp.kind == "candle" && lamp.watts != 1) {
      unusable.push_back({"lamp.watts", "1", "a candle has 1", "lamp.shade"});
    }
    return unusable;
  };
  return table;
}

class UnusableTest : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }
  Lamp load(const std::string& path, const std::vector<std::string>& overrides = {}) {
    Lamp lamp;
    testing::internal::CaptureStderr();
    lamp_options(lamp).load(path, overrides);
    said_ = testing::internal::GetCapturedStderr();
    return lamp;
  }

  TemporaryFolder folder_;
  std::string said_;
};

const std::string kCandle = "lamp.kind=candle";

TEST_F(UnusableTest, OfANamedRecipeAndItsBasesGiveWayToTheCommandLinesChoice) {
  write("base.yaml", "lamp: {kind: bulb, watts: 60}\n");
  const auto path = write("a.yaml", "base: base.yaml\nlamp:\n  dimmed: true\n");
  const auto lamp = load(path, {kCandle});
  EXPECT_FALSE(lamp.dimmed);
  EXPECT_EQ(lamp.watts, 1);
  expect_contains(said_, {"a.yaml:3: lamp.dimmed=true is left out: a candle cannot be dimmed\n",
                          "base.yaml:1: lamp.watts=60 is left out: a candle has 1\n"});
  EXPECT_TRUE(load(path).dimmed) << "a bulb can";
  EXPECT_EQ(said_, "");
}

TEST_F(UnusableTest, DefaultsGiveWayInSilence) {
  EXPECT_EQ(load("", {kCandle}).watts, 1);
  EXPECT_EQ(said_, "");
}

TEST_F(UnusableTest, OfTheCommandLineStay) {
  const auto path = write("a.yaml", "lamp: {dimmed: true}\n");
  const auto lamp = load(path, {kCandle, "lamp.dimmed=true", "lamp.watts=5"});
  EXPECT_TRUE(lamp.dimmed);
  EXPECT_EQ(lamp.watts, 5);
  EXPECT_EQ(said_, "");
}

TEST_F(UnusableTest, OfTheRecipeThatChoosesAndOfThoseBasedOnItStay) {
  const auto one = write("one.yaml", "lamp: {kind: candle, dimmed: true}\n");
  EXPECT_TRUE(load(one).dimmed);
  EXPECT_TRUE(load(write("two.yaml", "base: one.yaml\n")).dimmed);
  const auto three = load(write("three.yaml", "base: one.yaml\nlamp.watts: 5\n"));
  EXPECT_TRUE(three.dimmed);
  EXPECT_EQ(three.watts, 5);
  EXPECT_EQ(said_, "");
  // The choice of a later base, or of the file itself, is another's than the first base's.
  write("bulb.yaml", "lamp: {kind: bulb, dimmed: true, watts: 60}\n");
  const auto four = load(write("four.yaml", "base: bulb.yaml\nlamp: {kind: candle, watts: 7}\n"));
  EXPECT_FALSE(four.dimmed);
  EXPECT_EQ(four.watts, 7);
  // Bases side by side do not know each other.
  write("candle.yaml", "lamp: {kind: candle}\n");
  write("dimmed.yaml", "lamp: {dimmed: true}\n");
  EXPECT_FALSE(load(write("five.yaml", "base: [candle.yaml, dimmed.yaml]\n")).dimmed);
  expect_contains(said_, {"dimmed.yaml:1: lamp.dimmed=true is left out"});
}

TEST_F(UnusableTest, AValueStaysWhereTheUserSetWhatItGoesWith) {
  EXPECT_EQ(load("", {kCandle, "lamp.shade=glass"}).watts, 40);
}

TEST_F(UnusableTest, OfAStoredTextStay) {
  Lamp lamp;
  lamp_options(lamp).parse("lamp: {kind: candle, dimmed: true, watts: 9}\n", "a model");
  EXPECT_TRUE(lamp.dimmed);
  EXPECT_EQ(lamp.watts, 9);
}

}  // namespace
}  // namespace nsvq
