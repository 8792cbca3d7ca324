#include "nsvq/data/sources/source.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/data/files.h"
#include "tests/data/open_errors.h"
#include "tests/error_of.h"

namespace nsvq {
namespace {

using namespace testing_files;
using Names = std::vector<std::string>;

TEST(Builtin, ParametersAndDefaults) {
  const auto source = open_source("builtin:dead-leaves");
  EXPECT_EQ(source->size(), 2048);
  EXPECT_EQ(source->load(0).width, 64);
  EXPECT_EQ(source->label(0), -1);
  const auto small = open_source("builtin:dead-leaves?size=9&count=3&seed=5");
  EXPECT_EQ(small->size(), 3);
  EXPECT_EQ(small->load(2).height, 9);
  EXPECT_EQ(small->load(2).pixels.size(), 9U * 9 * 3);
  const auto same = open_source("builtin:dead-leaves?seed=0");
  EXPECT_EQ(source->load(7).pixels, same->load(7).pixels);
  const auto other = open_source("builtin:dead-leaves?seed=1");
  EXPECT_NE(source->load(7).pixels, other->load(7).pixels);
}

TEST(Builtin, ErrorsNameTheParameter) {
  expect_open_error("builtin:dead-leafs", {"dead-leafs", "builtin:dead-leaves"});
  expect_open_error("builtin:dead-leaves?sise=64", {"sise", "did you mean 'size'"});
  expect_open_error("builtin:dead-leaves?cuont=64", {"cuont", "did you mean 'count'"});
  expect_open_error("builtin:dead-leaves?size", {"size", "value"});
  for (const char* value : {"7", "4097", "", "x", "6 4", "64.5", "-1", "99999999999999999999"}) {
    expect_open_error(std::string("builtin:dead-leaves?size=") + value,
                      {"size", "8 to 4096", value});
  }
  expect_open_error("builtin:dead-leaves?count=0", {"count", "from 1"});
  expect_open_error("builtin:dead-leaves?seed=-1", {"seed", "from 0"});
  expect_open_error("builtin:dead-leaves?size=64&&seed=1", {"unknown parameter"});
}

TEST(SingleFiles, ImagesAndLists) {
  TempFolder folder;
  write_png(folder / "a.png", plain_image(4, 5, 9));
  write_png(folder / "odd{1,2}.png", plain_image(2, 2, 8));
  const auto one = open_source(folder.text("a.png"));
  EXPECT_EQ(keys_of(*one), Names({"a.png"}));
  EXPECT_EQ(one->load(0).height, 5);
  // A name that exists is taken as it is.
  EXPECT_EQ(open_source(folder.text("odd{1,2}.png"))->load(0).pixels[0], 8);
  EXPECT_EQ(open_source(folder.text("*.png"))->size(), 2);
  write_text(folder / "a.txt", "x");
  expect_open_error(folder.text("a.txt"), {"a.txt", "neither"});
  write_text(folder / "a.tar", make_tar({{"x.png", png_text(plain_image(1, 1, 1))}}));
  expect_open_error(folder.text("a.tar") + "," + folder.text("a.png"), {"mixes"});
  expect_open_error(folder.text("a.tar") + "," + folder.text(), {"folder"});
}

TEST(Source, PathsAreNamedWithoutDetours) {
  TempFolder folder;
  write_png(folder / "photos/a.png", plain_image(4, 5, 9));
  write_text(folder / "photos/b.png", "no picture");
  write_text(folder / "other/x", "");
  const auto why = [](const std::string& spec) {
    const auto source = open_source(spec);
    return error_of([&] { source->load(1); });
  };
  for (const auto* detour : {"other/../photos", "other/../photos/", "photos/../other/../photos"}) {
    const auto text = why(folder.text(detour));
    EXPECT_TRUE(text.starts_with(folder.text("photos/b.png"))) << text;
  }
  // Behind a link ".." is another folder, so the path stays.
  write_png(folder / "far/photos/a.png", plain_image(4, 5, 9));
  write_text(folder / "far/photos/b.png", "no picture");
  std::filesystem::create_directories(folder / "far/away");
  std::filesystem::create_directory_symlink(folder / "far/away", folder / "link");
  const auto behind = why(folder.text("link/../photos"));
  EXPECT_TRUE(behind.starts_with(folder.text("link/../photos/b.png"))) << behind;
}

TEST(Source, ImagesThatAreNotReadSayHowToConvertThem) {
  TempFolder folder;
  write_text(folder / "a.HEIC", "heic");
  expect_open_error(
      folder.text("a.HEIC"),
      {"a.HEIC: HEIC images are not read; convert it to JPEG or PNG (heif-convert does)"});
  expect_open_error(folder.text(),
                    {"1 .heic", "HEIC images are not read; convert them to JPEG or PNG"});
  write_text(folder / "a.tar", make_tar({{"x.heic", "heic"}, {"x.txt", "text"}}));
  expect_open_error(folder.text("a.tar"), {"1 .heic", "HEIC images are not read; convert them"});

  const auto passed_over = [](const std::string& spec) {
    testing::internal::CaptureStderr();
    open_source(spec);
    return testing::internal::GetCapturedStderr();
  };
  write_png(folder / "good.png", plain_image(3, 2, 7));
  EXPECT_NE(passed_over(folder.text()).find("1 .heic"), std::string::npos);
  EXPECT_NE(passed_over(folder.text()).find("convert them"), std::string::npos);
  write_text(folder / "b.tar",
             make_tar({{"x.avif", "avif"}, {"y.png", png_text(plain_image(3, 2, 7))}}));
  const auto of_tar = passed_over(folder.text("b.tar"));
  EXPECT_NE(of_tar.find("skipped 1 .avif"), std::string::npos) << of_tar;
  EXPECT_NE(of_tar.find("AVIF images are not read; convert them"), std::string::npos) << of_tar;
}

}  // namespace
}  // namespace nsvq
