#include "nsvq/data/sources/tar_source.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "nsvq/core/error.h"
#include "nsvq/core/random.h"
#include "nsvq/data/sources/source.h"
#include "tests/data/files.h"
#include "tests/data/open_errors.h"

namespace nsvq {
namespace {

using namespace testing_files;
using Names = std::vector<std::string>;

TEST(Tar, PatternsKeysAndClasses) {
  TempFolder folder;
  const std::string png = png_text(plain_image(2, 3, 50));
  write_text(folder / "s-00.tar", make_tar({{"zoo/1.png", png}, {"./ant/2.PNG", png}}));
  write_text(folder / "s-01.tar", make_tar({{"bee/3.png", png}, {"bee/._3.png", "x"}, {"r", "x"}}));
  const Names keys = {"zoo/1.png", "ant/2.PNG", "bee/3.png"};
  for (const char* pattern : {"s-{00..01}.tar", "s-*.tar", "s-0?.tar", "s-0[0-1].tar"}) {
    const auto source = open_source(folder.text(pattern));
    EXPECT_EQ(keys_of(*source), keys) << pattern;
    EXPECT_EQ(labels_of(*source), std::vector<int64_t>({2, 0, 1}));
    EXPECT_EQ(source->load(2).height, 3);
  }
  const auto list = open_source(folder.text("s-01.tar") + "," + folder.text("s-00.tar"));
  EXPECT_EQ(list->key(0), "bee/3.png");
}

TEST(Tar, ClassFilesWinOverFolders) {
  TempFolder folder;
  const std::string png = png_text(plain_image(1, 1, 1));
  write_text(folder / "w.tar", make_tar({{"a/1.cls", "17\n"},
                                         {"a/1.png", png},
                                         {"a/2.png", png},
                                         {"3.x.png", png},
                                         {"3.x.CLS", "4"},
                                         {"4.png", png},
                                         {"4.cls", "cat"},
                                         {"5.png", png},
                                         {"5.cls", ""}}));
  const auto source = open_source(folder.text("w.tar"));
  ASSERT_EQ(source->size(), 5);
  EXPECT_EQ(source->label(0), 17);
  EXPECT_EQ(source->label(1), 0);
  EXPECT_EQ(source->label(2), 4);
  EXPECT_THROW(source->label(3), UserError);
  EXPECT_THROW(source->label(4), UserError);
}

TEST(Tar, MissingAndEmptyShardsAreErrors) {
  TempFolder folder;
  const std::string png = png_text(plain_image(1, 1, 1));
  write_text(folder / "s-00.tar", make_tar({{"1.png", png}}));
  expect_open_error(folder.text("s-{00..02}.tar"), {"s-01.tar", "does not exist"});
  expect_open_error(folder.text("t-*.tar"), {"t-*.tar", "no file"});
  expect_open_error(folder.text("s-00.tar") + ",", {"empty name"});
  write_text(folder / "none.tar", make_tar({{"readme.txt", "x"}}));
  expect_open_error(folder.text("none.tar"), {"none.tar", ".jpg"});
  write_text(folder / "cut.tar", make_tar({{"1.png", png}}).substr(0, 520));
  expect_open_error(folder.text("cut.tar"), {"cut.tar"});
}

TEST(Tar, CompressedShards) {
  TempFolder folder;
  const std::string tar = make_tar(
      {{"a.png", png_text(plain_image(2, 3, 50))}, {"b.png", png_text(plain_image(1, 1, 9))}});
  for (const char* name : {"s.tar.gz", "s.TGZ", "s.tar.zst"}) {
    write_text(folder / name, std::string(name).ends_with("zst") ? zstd(tar) : gzip(tar));
    const auto source = open_source(folder.text(name));
    EXPECT_EQ(keys_of(*source), Names({"a.png", "b.png"})) << name;
    EXPECT_EQ(source->load(1).pixels[0], 9);
    EXPECT_EQ(source->load(0).height, 3);
  }
  // Members one after the other, as parallel compressors write them.
  write_text(folder / "two.tgz", gzip(tar.substr(0, 700)) + gzip(tar.substr(700)));
  EXPECT_EQ(open_source(folder.text("two.tgz"))->size(), 2);
}

TEST(Tar, DamagedCompressedShards) {
  TempFolder folder;
  const std::string tar = make_tar({{"a.png", png_text(plain_image(2, 3, 50))}});
  Random random(3);
  for (const std::string& whole : {gzip(tar), zstd(tar)}) {
    for (size_t size = 1; size < whole.size(); ++size) {
      write_text(folder / "cut.tgz", whole.substr(0, size));
      open_error(folder.text("cut.tgz"));
    }
    for (int trial = 0; trial < 200; ++trial) {
      auto bytes = whole;
      bytes[random.below(std::ssize(bytes))] = static_cast<char>(random.below(256));
      write_text(folder / "damaged.tgz", bytes);
      try {
        open_source(folder.text("damaged.tgz"));
      } catch (const UserError&) {
      }
    }
  }
}

TEST(Tar, ABombIsNotExpanded) {
  TempFolder folder;
  write_text(folder / "bomb.tar.zst", zstd(std::string(100 << 20, '\0')));
  expect_open_error(folder.text("bomb.tar.zst"), {"bomb.tar.zst", "expands to more than"});
}

// Nine bytes that ask for a window of 128 MiB.
TEST(Tar, ALongWindowOfASmallArchiveIsRefused) {
  TempFolder folder;
  write_text(folder / "long.tar.zst", std::string("\x28\xb5\x2f\xfd\0\x88\1\0\0", 9));
  expect_open_error(folder.text("long.tar.zst"), {"long.tar.zst", "zstd --long"});
}

TEST(Tar, AHugeClassFileIsNotRead) {
  TempFolder folder;
  write_text(folder / "s.tar", make_tar({{"a.png", png_text(plain_image(1, 1, 1))},
                                         {"a.cls", "1" + std::string(5000, ' ')}}));
  EXPECT_THROW(open_source(folder.text("s.tar"))->label(0), UserError);
}

TEST(Tar, BrokenEntryIsNamedWithItsShard) {
  TempFolder folder;
  write_text(folder / "s.tar", make_tar({{"a/bad.jpg", "nonsense"}}));
  const auto source = open_source(folder.text("s.tar"));
  try {
    source->load(0);
    ADD_FAILURE();
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("s.tar:a/bad.jpg"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace nsvq
