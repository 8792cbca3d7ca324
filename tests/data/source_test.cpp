#include "nsvq/data/source.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "nsvq/core/error.h"
#include "nsvq/core/random.h"
#include "nsvq/data/patterns.h"
#include "tests/data/files.h"

namespace nsvq {
namespace {

using testing_files::keys_of;
using testing_files::make_tar;
using testing_files::plain_image;
using testing_files::png_text;
using testing_files::TempFolder;
using testing_files::write_png;
using Names = std::vector<std::string>;

std::vector<int64_t> labels_of(const Source& source) {
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < source.size(); ++i) labels.push_back(source.label(i));
  return labels;
}

/// The message of the UserError that opening `spec` throws; one line.
std::string error_of(const std::string& spec) {
  try {
    open_source(spec);
  } catch (const UserError& error) {
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    return error.what();
  }
  ADD_FAILURE() << spec << " was opened";
  return "";
}

void expect_error(const std::string& spec, const Names& words) {
  const std::string message = error_of(spec);
  for (const auto& word : words) {
    EXPECT_NE(message.find(word), std::string::npos) << "'" << word << "' in: " << message;
  }
}

TEST(Patterns, BracesExpand) {
  EXPECT_EQ(expand_braces("a"), Names({"a"}));
  EXPECT_EQ(expand_braces(""), Names({""}));
  EXPECT_EQ(expand_braces("x{00..03}.tar"), Names({"x00.tar", "x01.tar", "x02.tar", "x03.tar"}));
  EXPECT_EQ(expand_braces("{8..11}"), Names({"8", "9", "10", "11"}));
  EXPECT_EQ(expand_braces("{008..010}"), Names({"008", "009", "010"}));
  EXPECT_EQ(expand_braces("{2..0}"), Names({"2", "1", "0"}));
  EXPECT_EQ(expand_braces("{5..5}"), Names({"5"}));
  EXPECT_EQ(expand_braces("{a,b}{0..1}"), Names({"a0", "a1", "b0", "b1"}));
  EXPECT_EQ(expand_braces("{a,b{0..1}}c"), Names({"ac", "b0c", "b1c"}));
  EXPECT_EQ(expand_braces("{,x}y"), Names({"y", "xy"}));
}

TEST(Patterns, BadBracesAreErrors) {
  for (const char* text : {"{", "}", "a{b", "a}b", "{a}", "{}", "{a..c}", "}{", "{1..}", "{..2}",
                           "{-1..2}", "{0..999999999999}", "{0..9999}{0..9999}",
                           "{{0..999999},x}{0..999999}", "{{0..999999},{0..999999}}"}) {
    EXPECT_THROW(expand_braces(text), UserError) << text;
  }
}

TEST(Patterns, HugeOnesAreRefusedBeforeTheyAreMade) {
  std::string many, deep(100'000, '{');
  for (int i = 0; i < 20'000; ++i) many += "{a,b}";
  EXPECT_THROW(expand_braces(many), UserError);
  for (int i = 0; i < 100'000; ++i) deep += ",}";
  EXPECT_THROW(expand_braces(deep), UserError);
  // A million paths of a kilobyte, and a million digits.
  EXPECT_THROW(expand_braces(std::string(1000, 'x') + "{0..999999}"), UserError);
  EXPECT_THROW(expand_braces("{0.." + std::string(1'000'000, '0') + "9}"), UserError);
  try {
    expand_braces(many);
  } catch (const UserError& error) {
    EXPECT_LT(std::string(error.what()).size(), 300U);
  }
}

TEST(Patterns, ListsSplitOutsideBraces) {
  EXPECT_EQ(split_list("a,b"), Names({"a", "b"}));
  EXPECT_EQ(split_list("a{1,2},b[,]"), Names({"a{1,2}", "b[,]"}));
  EXPECT_EQ(split_list("a,"), Names({"a", ""}));
}

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
  expect_error("builtin:dead-leafs", {"dead-leafs", "builtin:dead-leaves"});
  expect_error("builtin:dead-leaves?sise=64", {"sise", "did you mean 'size'"});
  expect_error("builtin:dead-leaves?cuont=64", {"cuont", "did you mean 'count'"});
  expect_error("builtin:dead-leaves?size", {"size", "value"});
  for (const char* value : {"7", "4097", "", "x", "6 4", "64.5", "-1", "99999999999999999999"}) {
    expect_error(std::string("builtin:dead-leaves?size=") + value, {"size", "8 to 4096", value});
  }
  expect_error("builtin:dead-leaves?count=0", {"count", "from 1"});
  expect_error("builtin:dead-leaves?seed=-1", {"seed", "from 0"});
  expect_error("builtin:dead-leaves?size=64&&seed=1", {"unknown parameter"});
}

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
  expect_error(folder.text(), {folder.text(), ".jpg", ".png"});
  write_text(folder / "a.tar", make_tar({}));
  expect_error(folder.text(), {"*.tar"});
  expect_error(folder.text("missing"), {"missing", "does not exist"});
  expect_error("", {"no images given"});
}

TEST(Source, ImagesThatAreNotReadSayHowToConvertThem) {
  TempFolder folder;
  write_text(folder / "a.HEIC", "heic");
  expect_error(folder.text("a.HEIC"),
               {"a.HEIC: HEIC images are not read; convert it to JPEG or PNG (heif-convert does)"});
  expect_error(folder.text(), {"1 .heic", "HEIC images are not read; convert them to JPEG or PNG"});
  write_text(folder / "a.tar", make_tar({{"x.heic", "heic"}, {"x.txt", "text"}}));
  expect_error(folder.text("a.tar"), {"1 .heic", "HEIC images are not read; convert them"});

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
  EXPECT_NE(of_tar.find("passed over 1 .avif"), std::string::npos) << of_tar;
  EXPECT_NE(of_tar.find("AVIF images are not read; convert them"), std::string::npos) << of_tar;
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
  EXPECT_EQ(text,
            folder.text().substr(0, folder.text().size()) +
                ": passed over 3 .gif, 1 .txt, 2 other (only .jpg, .jpeg, .png or .webp files "
                "are read)\n");
  std::filesystem::remove(folder / "a.png");
  expect_error(folder.text(), {"but 3 .gif", ".webp"});
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
  const std::string message = error_of(folder.text());
  if (root) {
    ASSERT_EQ(::seteuid(0), 0);
  }
  std::filesystem::permissions(folder / "a/b", std::filesystem::perms::all);
  EXPECT_EQ(message, "cannot list " + folder.text("a/b") + ": Permission denied");
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
  expect_error(folder.text("a.txt"), {"a.txt", "neither"});
  write_text(folder / "a.tar", make_tar({{"x.png", png_text(plain_image(1, 1, 1))}}));
  expect_error(folder.text("a.tar") + "," + folder.text("a.png"), {"mixes"});
  expect_error(folder.text("a.tar") + "," + folder.text(), {"folder"});
}

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
  expect_error(folder.text("s-{00..02}.tar"), {"s-01.tar", "does not exist"});
  expect_error(folder.text("t-*.tar"), {"t-*.tar", "no file"});
  expect_error(folder.text("s-00.tar") + ",", {"empty name"});
  write_text(folder / "none.tar", make_tar({{"readme.txt", "x"}}));
  expect_error(folder.text("none.tar"), {"none.tar", ".jpg"});
  write_text(folder / "cut.tar", make_tar({{"1.png", png}}).substr(0, 520));
  expect_error(folder.text("cut.tar"), {"cut.tar"});
}

TEST(Tar, CompressedShards) {
  TempFolder folder;
  const std::string tar = make_tar(
      {{"a.png", png_text(plain_image(2, 3, 50))}, {"b.png", png_text(plain_image(1, 1, 9))}});
  for (const char* name : {"s.tar.gz", "s.TGZ", "s.tar.zst"}) {
    write_text(folder / name, std::string(name).ends_with("zst") ? testing_files::zstd(tar)
                                                                 : testing_files::gzip(tar));
    const auto source = open_source(folder.text(name));
    EXPECT_EQ(keys_of(*source), Names({"a.png", "b.png"})) << name;
    EXPECT_EQ(source->load(1).pixels[0], 9);
    EXPECT_EQ(source->load(0).height, 3);
  }
  // Members one after the other, as parallel compressors write them.
  write_text(folder / "two.tgz",
             testing_files::gzip(tar.substr(0, 700)) + testing_files::gzip(tar.substr(700)));
  EXPECT_EQ(open_source(folder.text("two.tgz"))->size(), 2);
}

TEST(Tar, DamagedCompressedShards) {
  TempFolder folder;
  const std::string tar = make_tar({{"a.png", png_text(plain_image(2, 3, 50))}});
  Random random(3);
  for (const std::string& whole : {testing_files::gzip(tar), testing_files::zstd(tar)}) {
    for (size_t size = 1; size < whole.size(); ++size) {
      write_text(folder / "cut.tgz", whole.substr(0, size));
      error_of(folder.text("cut.tgz"));
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
  write_text(folder / "bomb.tar.zst", testing_files::zstd(std::string(100 << 20, '\0')));
  expect_error(folder.text("bomb.tar.zst"), {"bomb.tar.zst", "expands to more than"});
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
