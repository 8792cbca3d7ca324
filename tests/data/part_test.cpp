// Parts of images by the hashes of their names. Golden hashes: golden/parts.py.

#include "nsvq/data/sources/part.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "tests/data/files.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"

namespace nsvq {
namespace {

using testing_files::TempFolder;
using Texts = std::vector<std::string>;

struct GoldenName {
  uint64_t hash = 0;
  Texts parts;  ///< for kSplits
  std::string name;
};
const std::vector<Split> kSplits = {{0.1, 0.1}, {0.25, 0}, {0, 0.3}, {0.1, 0.2}};

std::vector<GoldenName> golden_names() {
  std::vector<GoldenName> names;
  std::ifstream in(NSVQ_TESTS_DIR "/golden/parts.txt");
  GoldenName one{0, Texts(kSplits.size()), ""};
  while (in >> std::hex >> one.hash) {
    for (auto& part : one.parts) in >> part;
    in.get();
    std::getline(in, one.name);
    names.push_back(one);
  }
  return names;
}

TEST(Parts, NamesHaveTheHashesOfPython) {
  const auto names = golden_names();
  ASSERT_EQ(names.size(), 31U);
  for (const auto& [hash, parts, name] : names) {
    // 53 bits are exact in a double.
    const double below = std::ldexp(static_cast<double>(hash >> 11), -53);
    EXPECT_FALSE((Part{0, below}).contains(name)) << name;
    EXPECT_TRUE((Part{below, below + std::ldexp(1, -53)}).contains(name)) << name;
  }
}

TEST(Parts, NamesAreInThePartsOfPython) {
  for (const auto& [hash, parts, name] : golden_names()) {
    for (size_t i = 0; i < kSplits.size(); ++i) {
      for (const char* part : {"tune", "test", "train"}) {
        const bool none = (part == std::string("tune") && kSplits[i].tune == 0) ||
                          (part == std::string("test") && kSplits[i].test == 0);
        if (none) continue;
        EXPECT_EQ(kSplits[i].part(part).contains(name), part == parts[i]) << name << " " << part;
      }
    }
  }
}

TEST(Parts, SharesOfManyNamesAreThoseAskedFor) {
  const Split split{0.1, 0.2};
  int tune = 0, test = 0, train = 0;
  for (int i = 0; i < 4000; ++i) {
    const auto name = fmt::format("class/{}.jpg", i);
    tune += split.part("tune").contains(name) ? 1 : 0;
    test += split.part("test").contains(name) ? 1 : 0;
    train += split.part("train").contains(name) ? 1 : 0;
  }
  EXPECT_EQ(tune + test + train, 4000);
  EXPECT_NEAR(tune, 400, 76);  // four standard deviations
  EXPECT_NEAR(test, 800, 101);
}

TEST(Parts, AreNamedBehindASource) {
  const auto source_and_part = [](const std::string& text) {
    const NamedPart named(text);
    return named.source + " " + named.part;
  };
  EXPECT_EQ(source_and_part("photos#test"), "photos test");
  EXPECT_EQ(source_and_part("a.tar,b-{0,1}.tar#tune"), "a.tar,b-{0,1}.tar tune");
  EXPECT_EQ(source_and_part("no#1/photos#train"), "no#1/photos train");
  EXPECT_EQ(source_and_part("photos#0.1..0.25"), "photos 0.1..0.25");
  EXPECT_EQ(source_and_part("photos#0..1"), "photos 0..1");
  EXPECT_EQ(source_and_part("pipe:cat a.tar#all"), "pipe:cat a.tar all");
  for (const char* whole :
       {"photos", "photos#", "photos#Test", "photos#1", "photos#0.2..0.1", "photos#0.1..0.1",
        "photos#0..1.5", "photos#-0.1..0.5", "photos#nan..1", "photos#0..", "photos#..1",
        "photos#test/a.tar", "photos#test,b.tar", "photos#0.1..0.2 "}) {
    EXPECT_EQ(source_and_part(whole), std::string(whole) + " ");
  }
}

TEST(Parts, AnExistingPathIsNotDivided) {
  TempFolder folder;
  write_text(folder / "odd#test", "");
  EXPECT_EQ(NamedPart(folder.text("odd#test")).part, "");
  EXPECT_EQ(NamedPart(folder.text("odd#tune")).part, "tune");
  EXPECT_EQ(NamedPart(folder.text("odd#test#tune")).source, folder.text("odd#test"));
}

TEST(Parts, NamesNeedTheSettingsOfARun) {
  EXPECT_EQ(part_of("photos").to, 1);
  EXPECT_EQ(part_of("photos#all").to, 1);
  EXPECT_EQ(part_of("photos#0.1..0.2").from, 0.1);
  expect_contains(error_of([] { part_of("photos#test"); }),
                  {"photos#test", "data.split", "photos#0..0.1"});
}

TEST(Parts, NamesBecomeHashes) {
  const auto items = [](const Texts& texts, const Split& split, const std::string& unnamed) {
    return with_hashes(texts, split, unnamed).items;
  };
  const Split split{0.1, 0.2};
  EXPECT_EQ(items({"a#train", "a#tune", "a#test", "a#all", "a", "a#0.5..0.6"}, split, "all"),
            (Texts{"a#0.30000000000000004..1", "a#0..0.1", "a#0.1..0.30000000000000004", "a", "a",
                   "a#0.5..0.6"}));
  EXPECT_EQ(items({"a", "b,c"}, split, "train"),
            (Texts{"a#0.30000000000000004..1", "b,c#0.30000000000000004..1"}));
  EXPECT_EQ(items({"a", "a#train", "a#all"}, {}, "train"), (Texts{"a", "a", "a"}));
  EXPECT_EQ(items({"a#test"}, {0, 1e-5}, "all"), Texts{"a#0..1e-05"});
  EXPECT_EQ(part_of("a#0..1e-05").to, 1e-5);
  expect_contains(error_of([&] {
                    items({"a#test"}, {0.1, 0}, "all");
                  }),
                  {"a#test: data.split.test is 0"});
  Sources allowed = "a";
  allowed.pipes_allowed = true;
  EXPECT_TRUE(with_hashes(allowed, split).pipes_allowed);
}

}  // namespace
}  // namespace nsvq
