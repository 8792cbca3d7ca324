#include "nsvq/io/files/append_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "nsvq/core/error.h"
#include "nsvq/core/temporary_folder.h"
#include "nsvq/io/files/file.h"

namespace nsvq {
namespace {

TEST(AppendFile, GrowsAndIsCut) {
  TemporaryFolder folder;
  {
    AppendFile file(folder / "log");
    file.append("one\n");
    file.append("two\n");
    EXPECT_EQ(file.length(), 8u);
    file.cut(4);
    file.append("three\n");
  }
  AppendFile(folder / "log").append("four\n");
  EXPECT_EQ(read_text(folder / "log"), "one\nthree\nfour\n");
}

TEST(AppendFile, LeavesOtherNamesOfTheFileAsTheyAre) {
  TemporaryFolder folder;
  write_text(folder / "log", "one\ntwo\n");
  std::filesystem::create_hard_link(folder / "log", folder / "before");
  {
    AppendFile file(folder / "log");
    file.cut(4);
    file.append("three\n");
    std::filesystem::create_hard_link(folder / "log", folder / "meanwhile");
    file.append("four\n");
    EXPECT_EQ(file.length(), 15u);
    file.append("five\n");
  }
  EXPECT_EQ(read_text(folder / "before"), "one\ntwo\n");
  EXPECT_EQ(read_text(folder / "meanwhile"), "one\nthree\n");
  EXPECT_EQ(read_text(folder / "log"), "one\nthree\nfour\nfive\n");
}

TEST(AppendFile, WritesToNoLinkAndWaitsForNoPipe) {
  TemporaryFolder folder;
  write_text(folder / "precious", "text");
  std::filesystem::create_symlink("precious", folder / "link");
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_THROW(AppendFile(folder / "link"), RunError);
  EXPECT_THROW(append_line(folder / "link", "line"), RunError);
  EXPECT_THROW(AppendFile(folder / "pipe"), RunError);
  EXPECT_EQ(read_text(folder / "precious"), "text");
}

}  // namespace
}  // namespace nsvq
