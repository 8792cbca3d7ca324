#include "nsvq/io/formats/tar_writer.h"

#include <gtest/gtest.h>

#include <string>

#include "nsvq/core/error.h"
#include "nsvq/core/temporary_folder.h"
#include "nsvq/io/formats/tar.h"

namespace nsvq {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

TEST(TarWriter, ReaderGivesBackEveryNameAndSize) {
  const TemporaryFolder folder;
  std::vector<std::pair<std::string, std::string>> files;
  for (const size_t size : {0, 1, 511, 512, 513, 5000}) {
    files.emplace_back("size/" + std::to_string(size), std::string(size, 'x'));
  }
  for (const size_t length : {1, 99, 100, 101, 154, 155, 156, 254, 255, 256, 257, 1000}) {
    files.emplace_back(std::string(length, 'n'), "flat");
    std::string path = "d/" + std::string(length, 'n');
    for (size_t i = 60; i + 1 < path.size(); i += 61) path[i] = '/';
    files.emplace_back(path, "deep");
  }
  files.emplace_back(std::string(120, 'a') + "/" + std::string(101, 'b'), "no split fits");
  files.emplace_back("bücher/1 2.png", "not ASCII");
  {
    TarWriter writer(folder / "a.tar");
    for (const auto& [name, contents] : files) writer.add(name, bytes_of(contents));
    EXPECT_FALSE(std::filesystem::exists(folder / "a.tar"));
    writer.commit();
  }
  const TarReader reader(folder / "a.tar");
  ASSERT_EQ(reader.entries().size(), files.size());
  for (size_t i = 0; i < files.size(); ++i) {
    EXPECT_EQ(reader.entries()[i].name, files[i].first);
    const auto contents = reader.read(reader.entries()[i]);
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(contents.data()), contents.size()),
              files[i].second);
  }
}

TEST(TarWriter, NothingAppearsWithoutCommit) {
  const TemporaryFolder folder;
  { TarWriter(folder / "a.tar").add("x", bytes_of("1")); }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(TarWriter, EqualEntriesGiveEqualBytes) {
  const TemporaryFolder folder;
  for (const auto* name : {"a.tar", "b.tar"}) {
    TarWriter writer(folder / name);
    writer.add(std::string(300, 'n'), bytes_of("1"));
    writer.commit();
  }
  EXPECT_EQ(read_file(folder / "a.tar"), read_file(folder / "b.tar"));
  EXPECT_EQ(read_file(folder / "a.tar").size() % 512, 0u);
}

TEST(TarWriter, RefusesNamesThatNoArchiveHolds) {
  const TemporaryFolder folder;
  TarWriter writer(folder / "a.tar");
  EXPECT_THROW(writer.add("", bytes_of("1")), UserError);
  EXPECT_THROW(writer.add(std::string("a\0b", 3), bytes_of("1")), UserError);
}

}  // namespace
}  // namespace nsvq
