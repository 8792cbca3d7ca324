#include "nsvq/data/sources/folder_source.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "nsvq/core/error.h"
#include "nsvq/data/sources/source.h"
#include "tests/data/files.h"
#include "tests/data/open_errors.h"

namespace nsvq {
namespace {

using namespace testing_files;
using Names = std::vector<std::string>;

TEST(Folder, SortedWithClasses) {
  TempFolder folder;
  for (const char* name : {"dogs/2.png", "dogs/1.PNG", "cats/deep/er/9.png", "cats/1.jpeg",
                           ".hidden/1.png", "dogs/.1.png", "dogs/notes.txt"}) {
    write_png(folder / name, plain_image(3, 2, 7));
  }
  const auto source = open_source(folder.text());
  EXPECT_EQ(keys_of(*source),
            Names({"cats/1.jpeg", "cats/deep/er/9.png", "dogs/1.PNG", "dogs/2.png"}));
  EXPECT_EQ(labels_of(*source), std::vector<int64_t>({0, 0, 1, 1}));
  EXPECT_EQ(source->load(3).width, 3);
  EXPECT_EQ(source->load(3).pixels[0], 7);
  EXPECT_EQ(keys_of(*open_source(folder.text() + "/")), keys_of(*source));
}

TEST(Folder, FlatHasNoClasses) {
  TempFolder folder;
  write_png(folder / "b.png", plain_image(1, 1, 1));
  write_png(folder / "a.png", plain_image(1, 1, 2));
  const auto source = open_source(folder.text());
  EXPECT_EQ(keys_of(*source), Names({"a.png", "b.png"}));
  EXPECT_EQ(labels_of(*source), std::vector<int64_t>({-1, -1}));
  EXPECT_EQ(source->load(0).pixels[0], 2);
}

TEST(Folder, FollowsLinksButNotInCircles) {
  TempFolder folder, elsewhere;
  write_png(elsewhere / "1.png", plain_image(1, 1, 1));
  write_png(folder / "own/1.png", plain_image(1, 1, 2));
  std::filesystem::create_directory_symlink(elsewhere.text(), folder / "linked");
  std::filesystem::create_directory_symlink(folder.text(), folder / "own/circle");
  EXPECT_EQ(keys_of(*open_source(folder.text())), Names({"linked/1.png", "own/1.png"}));
}

TEST(Folder, NothingFoundSaysWhatWasSought) {
  TempFolder folder;
  expect_open_error(folder.text(), {folder.text(), ".jpg", ".png"});
  write_text(folder / "a.tar", make_tar({}));
  expect_open_error(folder.text(), {"*.tar"});
  expect_open_error(folder.text("missing"), {"missing", "does not exist"});
  expect_open_error("", {"no images given"});
}

TEST(Folder, BrokenImageIsNamedWhenLoaded) {
  TempFolder folder;
  write_text(folder / "empty.png", "");
  write_text(folder / "text.jpg", "not an image");
  const auto source = open_source(folder.text());
  for (int64_t i = 0; i < source->size(); ++i) {
    try {
      source->load(i);
      ADD_FAILURE() << source->key(i);
    } catch (const UserError& error) {
      EXPECT_NE(std::string(error.what()).find(source->key(i)), std::string::npos) << error.what();
    }
  }
}

TEST(Folder, AnImageThatHasGoneIsNoBrokenOne) {
  TempFolder folder;
  write_png(folder / "a.png", plain_image(3, 2, 7));
  write_png(folder / "b.png", plain_image(3, 2, 7));
  const auto source = open_source(folder.text());
  std::filesystem::remove(std::filesystem::path(folder.text()) / "b.png");
  EXPECT_EQ(source->load(0).width, 3);
  EXPECT_THROW(source->load(1), RunError);
}

TEST(Folder, PipesDevicesAndHugeFilesAreBrokenImages) {
  TempFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe.jpg").c_str(), 0600), 0);
  std::filesystem::create_symlink("/dev/zero", folder / "zero.jpg");
  write_text(folder / "huge.jpg", "");
  std::filesystem::resize_file(folder / "huge.jpg", 60'000'000'000);
  write_png(folder / "good.png", plain_image(3, 2, 7));
  const auto source = open_source(folder.text());
  EXPECT_EQ(keys_of(*source), Names({"good.png", "huge.jpg", "pipe.jpg", "zero.jpg"}));
  EXPECT_EQ(source->load(0).width, 3);
  for (int64_t i = 1; i < 4; ++i) EXPECT_THROW(source->load(i), UserError) << source->key(i);
  EXPECT_THROW(open_source(folder.text("pipe.jpg"))->load(0), UserError);
}

TEST(Folder, LimitsAreTheCallers) {
  TempFolder folder;
  write_png(folder / "a.png", plain_image(30, 20, 7));
  EXPECT_EQ(open_source(folder.text(), {.pixels = 600})->load(0).width, 30);
  EXPECT_THROW(open_source(folder.text(), {.pixels = 599})->load(0), UserError);
  write_text(folder / "a.tar", make_tar({{"a.png", png_text(plain_image(30, 20, 7))}}));
  EXPECT_THROW(open_source(folder.text("a.tar"), {.pixels = 599})->load(0), UserError);
  EXPECT_THROW(open_source(folder.text("a.tar"), {.file_bytes = 10})->load(0), UserError);
}

TEST(Folder, OtherFilesAreCountedOnce) {
  TempFolder folder;
  for (const char* name :
       {"a.png", "b.GIF", "c.gif", "x/d.gif", "notes.txt", "README", "e.we\nird"})
    write_text(folder / name, "x");
  ::testing::internal::CaptureStderr();
  const auto source = open_source(folder.text());
  const auto again = open_source(folder.text());
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(text, folder.text().substr(0, folder.text().size()) +
                      ": skipped 3 .gif, 1 .txt, 2 other (only .jpg, .jpeg, .png or .webp files "
                      "are read)\n");
  std::filesystem::remove(folder / "a.png");
  expect_open_error(folder.text(), {"but 3 .gif", ".webp"});
}

TEST(Folder, OpenedTwiceItSharesTheLogOfBrokenImages) {
  TempFolder folder;
  write_png(folder / "a.png", plain_image(1, 1, 1));
  write_png(folder / "b.png", plain_image(1, 1, 1));
  const auto one = open_source(folder.text()), two = open_source(folder.text());
  EXPECT_EQ(&one->broken_log(), &two->broken_log());
  EXPECT_NE(&one->broken_log(), &open_source(folder.text("a.png"))->broken_log());
}

TEST(Folder, AFolderThatCannotBeReadIsNamed) {
  TempFolder folder;
  write_png(folder / "a/b/1.png", plain_image(1, 1, 1));
  std::filesystem::permissions(folder.path(), std::filesystem::perms::all);
  std::filesystem::permissions(folder / "a/b", std::filesystem::perms::none);
  const bool root = ::geteuid() == 0;
  if (root) {
    ASSERT_EQ(::seteuid(65534), 0);  // root may read everything
  }
  const std::string message = open_error(folder.text());
  if (root) {
    ASSERT_EQ(::seteuid(0), 0);
  }
  std::filesystem::permissions(folder / "a/b", std::filesystem::perms::all);
  EXPECT_EQ(message, "cannot list " + folder.text("a/b") + ": Permission denied");
}

}  // namespace
}  // namespace nsvq
