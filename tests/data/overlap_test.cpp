// Whether lists of sources read images in common.

#include "nsvq/data/sources/overlap.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "nsvq/data/sources/part.h"
#include "tests/data/files.h"

namespace nsvq {
namespace {

namespace fs = std::filesystem;
using testing_files::TempFolder;
using Texts = std::vector<std::string>;

class Overlap : public testing::Test {
 protected:
  Overlap() {
    for (const char* name :
         {"photos/cat/1.png", "photos/dog/2.png", "other/1.png", "a.tar", "b.tar"}) {
      fs::create_directories((folder_ / name).parent_path());
      write_text(folder_ / name, "");  // no image is opened
    }
  }
  std::string text(const std::string& name) const { return folder_.text(name); }
  static bool shared(const Sources& one, const Sources& other) {
    const bool found = shared_images(one, other).has_value();
    EXPECT_EQ(shared_images(other, one).has_value(), found);
    return found;
  }
  TempFolder folder_;
};

TEST_F(Overlap, PathsDecide) {
  EXPECT_TRUE(shared(text("photos"), text("photos/")));
  EXPECT_TRUE(shared(text("photos"), text("other/../photos")));
  EXPECT_FALSE(shared(text("photos"), text("other")));
  fs::create_directory_symlink(folder_ / "photos", folder_ / "link");
  EXPECT_TRUE(shared(text("link"), text("photos")));
  EXPECT_TRUE(shared(text("photos/cat"), text("photos")));
  EXPECT_FALSE(shared(text("photos/cat"), text("photos/dog")));
  EXPECT_TRUE(shared(text("photos/cat/1.png"), text("photos")));
  EXPECT_FALSE(shared(text("photos/cat/1.png"), text("other")));
  EXPECT_TRUE(shared(text("{a,b}.tar"), text("b.tar")));
  EXPECT_TRUE(shared(text("*.tar"), text("a.tar") + "," + text("b.tar")));
  EXPECT_FALSE(shared(text("a.tar"), text("b.tar")));
  EXPECT_TRUE(shared(Texts{text("other"), text("a.tar")}, Texts{text("photos"), text("a.tar")}));
  EXPECT_FALSE(shared(Texts{text("other"), text("a.tar")}, Texts{text("photos"), text("b.tar")}));
  EXPECT_FALSE(shared(text("a.tar"), text("missing-{00..03}.tar")));
}

TEST_F(Overlap, PartsDecide) {
  for (const auto& name : {text("photos"), text("{a,b}.tar"), std::string("pipe:cat a.tar"),
                           std::string("builtin:dead-leaves?size=9")}) {
    EXPECT_FALSE(shared(name + "#0..0.1", name + "#0.1..1")) << name;
    EXPECT_TRUE(shared(name + "#0..0.2", name + "#0.1..1")) << name;
    EXPECT_TRUE(shared(name, name + "#0.9..1")) << name;
  }
  // Names begin with another folder there, so hashes differ.
  EXPECT_TRUE(shared(text("photos/cat") + "#0..0.1", text("photos") + "#0.1..1"));
}

TEST_F(Overlap, ASingleImageIsInOnePart) {
  const auto image = text("photos/cat/1.png");
  const std::string in_folder = Part{0, 0.5}.contains("cat/1.png") ? "#0..0.5" : "#0.5..1";
  const std::string outside = in_folder == "#0..0.5" ? "#0.5..1" : "#0..0.5";
  EXPECT_TRUE(shared(image, text("photos") + in_folder));
  EXPECT_FALSE(shared(image, text("photos") + outside));
  const std::string alone = Part{0, 0.5}.contains("1.png") ? "#0..0.5" : "#0.5..1";
  const std::string none = alone == "#0..0.5" ? "#0.5..1" : "#0..0.5";
  EXPECT_TRUE(shared(image + alone, image));
  EXPECT_FALSE(shared(image + none, image));
  EXPECT_FALSE(shared(image + none, text("photos")));
}

TEST_F(Overlap, PicturesAreDrawnBySizeAndSeed) {
  const std::string leaves = "builtin:dead-leaves?size=16";
  EXPECT_TRUE(shared(leaves + "&count=9", leaves + "&count=3&seed=0"));
  EXPECT_FALSE(shared(leaves, leaves + "&seed=1"));
  EXPECT_FALSE(shared(leaves, "builtin:dead-leaves?size=17"));
}

TEST_F(Overlap, CommandsAreComparedAndNotRun) {
  EXPECT_TRUE(shared("pipe:touch {0..3} " + text("run"), "pipe:touch 2 " + text("run")));
  EXPECT_FALSE(shared("pipe:cat a.tar", "pipe:cat b.tar"));
  EXPECT_FALSE(fs::exists(folder_ / "run"));
}

TEST_F(Overlap, NamesTheImagesAndTheItem) {
  const auto found = shared_images(Texts{text("other"), text("photos/cat")},
                                   Texts{text("a.tar"), text("photos#0..0.5")});
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->name, fs::canonical(folder_ / "photos/cat").string());
  EXPECT_EQ(found->item, text("photos#0..0.5"));
}

}  // namespace
}  // namespace nsvq
