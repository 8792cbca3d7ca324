#include "nsvq/tokenizer/picture_output.h"

#include <gtest/gtest.h>

#include <set>

#include "nsvq/core/error.h"
#include "tests/error_of.h"

namespace nsvq {
namespace {

using PictureList = std::vector<std::string>;

TEST(PictureNames, KeysWithAnotherEnding) {
  EXPECT_EQ(picture_names({"a/x.jpg", "x", "b.c.png", "../../up.jpg", "/root.jpg", ".."}, ".png"),
            PictureList({"a/x.png", "x.png", "b.c.png", "up.png", "root.png", "image.png"}));
}

TEST(PictureNames, NeverTheSameTwice) {
  EXPECT_EQ(picture_names({"x.jpg", "x.png", "x.png", "x.png", "x.jpg"}, ".png"),
            PictureList({"x.png", "x.png.png", "x.png.2.png", "x.png.3.png", "x.jpg.png"}));
  EXPECT_EQ(picture_names({"x.png.2.png", "x.png", "x.png", "x.png"}, ".png"),
            PictureList({"x.png.2.png", "x.png", "x.png.png", "x.png.3.png"}));
}

TEST(PictureNames, ManyEqualKeysTakeNoLonger) {
  const auto names = picture_names(PictureList(200'000, "x.jpg"), ".png");
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
}

TEST(PictureNames, WhatAFolderCannotHold) {
  require_folder_names({"a/b.png", "a.png", "a/c/b.png"}, "out", "try a tar");
  EXPECT_EQ(error_of([] {
              require_folder_names({"x.png/y.png", "x.png"}, "out", "name a .tar file for --out");
            }),
            "out: cannot hold a picture named 'x.png/y.png': 'x.png' is a picture too; name a .tar "
            "file for --out");
  require_folder_names({std::string(251, 'n') + ".png"}, "out", "try a tar");
  for (const auto& name : {std::string(252, 'n') + ".png", std::string(256, 'f') + "/a.png"})
    EXPECT_NE(error_of([&] { require_folder_names({name}, "out", "try a tar"); }).find("too long"),
              std::string::npos);
  for (const auto* name : {".nsvq-incomplete.tmp/x.png", ".nsvq-incomplete.json/a/x.png"})
    EXPECT_NE(error_of([&] { require_folder_names({name}, "out", "try a tar"); }).find("record"),
              std::string::npos);
  EXPECT_NE(error_of([] {
              require_folder_names({std::string("a\0b.png", 7)}, "out", "try a tar");
            }).find("zero byte"),
            std::string::npos);
  std::string deep;
  for (int i = 0; i < 3000; ++i) deep += "a/";
  EXPECT_NE(error_of([&] {
              require_folder_names({deep + "x.png"}, "out", "try a tar");
            }).find("too long"),
            std::string::npos);
}

}  // namespace
}  // namespace nsvq
