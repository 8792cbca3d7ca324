// Several sources as one, and names of classes.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "nsvq/core/error.h"
#include "nsvq/data/sources/combined_sources.h"
#include "nsvq/data/sources/source.h"
#include "tests/data/files.h"

namespace nsvq {
namespace {

using testing_files::keys_of;
using testing_files::make_tar;
using testing_files::plain_image;
using testing_files::png_text;
using testing_files::TempFolder;
using testing_files::write_png;
using Texts = std::vector<std::string>;

/// Name of each image's class.
Texts class_names(const Source& source) {
  Texts names;
  for (int64_t i = 0; i < source.size(); ++i) {
    const int64_t label = source.label(i);
    names.push_back(label < 0 ? "" : source.classes().at(label));
  }
  return names;
}

TEST(SeveralSources, AreOneAfterAnother) {
  TempFolder folder;
  write_png(folder / "a/1.png", plain_image(1, 1, 1));
  write_png(folder / "a/2.png", plain_image(1, 1, 2));
  write_png(folder / "b/1.png", plain_image(1, 1, 3));
  write_text(folder / "s.tar", make_tar({{"x.png", png_text(plain_image(1, 1, 4))}}));
  const auto source =
      open_source(Texts{folder.text("a"), folder.text("b/"), folder.text("s.tar"),
                        "builtin:dead-leaves?size=9&count=2", folder.text("a/2.png")});
  ASSERT_EQ(source->size(), 7);
  const auto keys = keys_of(*source);
  EXPECT_EQ(Texts(keys.begin(), keys.begin() + 4),
            (Texts{"a/1.png", "a/2.png", "b/1.png", "x.png"}));
  EXPECT_EQ(keys.back(), "2.png");
  for (const auto& [image, value] : {std::pair{0, 1}, {1, 2}, {2, 3}, {3, 4}, {6, 2}}) {
    EXPECT_EQ(source->load(image).pixels[0], value);
  }
  EXPECT_EQ(source->load(5).width, 9);
  EXPECT_TRUE(source->classes().empty());
  EXPECT_THROW(source->load(7), std::out_of_range);
  EXPECT_THROW(source->load(-1), std::out_of_range);
  EXPECT_THROW(open_source(Texts{folder.text("a"), folder.text("missing")}), UserError);
}

TEST(SeveralSources, FoldersOfOneNameAreNumbered) {
  TempFolder folder;
  write_png(folder / "a/train/1.png", plain_image(1, 1, 1));
  write_png(folder / "b/train/1.png", plain_image(1, 1, 2));
  const auto source = open_source(Texts{folder.text("a/train"), folder.text("b/train/")});
  EXPECT_EQ(keys_of(*source), (Texts{"train/1.png", "train-2/1.png"}));
}

TEST(SeveralSources, ClassesOfOneNameAreOneClass) {
  TempFolder folder;
  for (const char* name : {"a/bee/1.png", "a/cat/1.png", "b/ant/1.png", "b/cat/1.png"}) {
    write_png(folder / name, plain_image(1, 1, 1));
  }
  const auto source = open_source(Texts{folder.text("a"), folder.text("b")});
  EXPECT_EQ(source->classes(), (Texts{"ant", "bee", "cat"}));
  EXPECT_EQ(class_names(*source), (Texts{"bee", "cat", "ant", "cat"}));
  EXPECT_EQ(LimitedSource(open_source(folder.text("a")), 1).classes(), (Texts{"bee", "cat"}));
}

TEST(SeveralSources, NamesAndNumbersOfClassesDoNotMix) {
  TempFolder folder;
  write_png(folder / "a/bee/1.png", plain_image(1, 1, 1));
  const auto png = png_text(plain_image(1, 1, 1));
  write_text(folder / "n.tar", make_tar({{"1.png", png}, {"1.cls", "7"}}));
  EXPECT_THROW(open_source(Texts{folder.text("a"), folder.text("n.tar")}), UserError);
  EXPECT_EQ(open_source(Texts{folder.text("n.tar"), folder.text("n.tar")})->label(1), 7);
}

TEST(NamedClassesOfImages, NumbersAreThoseOfTheList) {
  TempFolder folder;
  write_png(folder / "all/bee/1.png", plain_image(1, 1, 1));
  write_png(folder / "all/cat/1.png", plain_image(1, 1, 1));
  write_text(folder / "names.txt", "zebra\ncat\r\nbee\n");
  const auto names = read_class_names(folder / "names.txt");
  EXPECT_EQ(names, (Texts{"zebra", "cat", "bee"}));
  const NamedClasses source(open_source(folder.text("all")), names);
  EXPECT_EQ(source.label(0), 2);
  EXPECT_EQ(source.label(1), 1);
  EXPECT_EQ(source.classes(), names);
  EXPECT_THROW(NamedClasses(open_source(folder.text("all")), {"cat"}), UserError);
  EXPECT_THROW(NamedClasses(open_source(folder.text("all/bee")), {"cat"}), UserError);
}

TEST(NamedClassesOfImages, AListIsChecked) {
  TempFolder folder;
  const auto error = [&](const std::string& text) -> std::string {
    write_text(folder / "n.txt", text);
    try {
      read_class_names(folder / "n.txt");
    } catch (const UserError& error) {
      return std::string(error.what()).substr(folder.text("").size());
    }
    return "none";
  };
  EXPECT_EQ(error("a\nb"), "none");
  EXPECT_EQ(error(""), "n.txt: no class names, one a line");
  EXPECT_EQ(error("a\n\nb\n"), "n.txt:2: an empty line where a class name is due");
  EXPECT_EQ(error("a\nb\na\n"), "n.txt:3: 'a' is there twice");
}

}  // namespace
}  // namespace nsvq
