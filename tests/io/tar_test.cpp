#include "nsvq/io/formats/tar.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "nsvq/core/error.h"
#include "nsvq/core/temporary_folder.h"
#include "nsvq/io/files/file.h"

namespace nsvq {
namespace {

const std::string kTars = NSVQ_TESTS_DIR "/golden/tars/";

std::string padded(std::string contents) {
  contents.resize((contents.size() + 511) / 512 * 512, '\0');
  return contents;
}

void set_checksum(std::string& header) {
  header.replace(148, 8, 8, ' ');
  int sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  std::snprintf(header.data() + 148, 8, "%06o", static_cast<unsigned>(sum));
}

/// A header with `size_field` of at most 12 bytes as it is.
std::string header(const std::string& name, char type, const std::string& size_field) {
  std::string out(512, '\0');
  out.replace(0, name.size(), name);
  out.replace(124, size_field.size(), size_field);
  out[156] = type;
  out.replace(257, 8, std::string("ustar\00000", 8));
  set_checksum(out);
  return out;
}

std::string octal(size_t size) { return fmt::format("{:011o}", size); }

std::string member(const std::string& name, const std::string& contents, char type = '0') {
  return header(name, type, octal(contents.size())) + padded(contents);
}

class Tar : public ::testing::Test {
 protected:
  TarReader open(const std::string& bytes) {
    std::filesystem::remove(folder_ / "a.tar");  // truncating it would make ext4 flush each time
    std::ofstream(folder_ / "a.tar", std::ios::binary) << bytes;
    return TarReader(folder_ / "a.tar");
  }

  /// The message of the UserError that opening throws, less the folder; empty where it throws none.
  std::string error_of(const std::string& bytes) {
    try {
      open(bytes);
    } catch (const UserError& error) {
      const std::string message = error.what();
      EXPECT_EQ(message.find('\n'), std::string::npos) << message;
      EXPECT_EQ(message.rfind(folder_.path().string(), 0), 0u) << message;
      return message.substr(folder_.path().string().size() + 1);
    }
    return "";
  }

  TemporaryFolder folder_;
};

std::string contents(const TarReader& tar, const TarEntry& entry) {
  const auto bytes = tar.read(entry);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string repeated(const std::string& text, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += text;
  return out;
}

TEST_F(Tar, ReadsWhatPythonWrites) {
  for (const std::string format : {"ustar", "gnu", "pax"}) {
    const TarReader tar(kTars + format + ".tar");
    const auto& entries = tar.entries();
    ASSERT_EQ(entries.size(), 5u) << format;
    EXPECT_EQ(entries[0].name, "a.jpg");
    EXPECT_EQ(entries[1].name, "cats/1.jpg");
    EXPECT_EQ(entries[2].name, std::string(99, 'x') + "/" + std::string(60, 'y') + ".png");
    EXPECT_EQ(entries[3].name, "cats/empty");
    EXPECT_EQ(entries[4].name, repeated("é", format == "pax" ? 120 : 1) + ".png");
    for (const int i : {0, 1, 2, 4})
      EXPECT_EQ(contents(tar, entries[i]), repeated(fmt::format("file {} ", i), i * 40 + 1));
    EXPECT_EQ(contents(tar, entries[3]), "");
  }
}

TEST_F(Tar, MovesKeepTheArchiveOpen) {
  TarReader first = open(member("a", "hello"));
  const TarReader second = std::move(first);
  EXPECT_EQ(contents(second, second.entries().at(0)), "hello");
}

TEST_F(Tar, EndMayBeMissingOrFollowedByGarbage) {
  const std::string files = member("a", "one") + member("b", std::string(512, 'x'));
  EXPECT_EQ(open(files).entries().size(), 2u);
  EXPECT_EQ(open(files + std::string(512, '\0')).entries().size(), 2u);
  EXPECT_EQ(open(files + std::string(1024, '\0') + "garbage").entries().size(), 2u);
  EXPECT_EQ(open(std::string(10240, '\0')).entries().size(), 0u);
}

TEST_F(Tar, SizesInBase256AndPax) {
  std::string size(12, '\0');
  size[0] = '\x80';
  size[11] = 5;
  TarReader tar = open(header("a", '0', size) + padded("hello") + member("b", "x"));
  ASSERT_EQ(tar.entries().size(), 2u);
  EXPECT_EQ(contents(tar, tar.entries()[0]), "hello");

  TarReader pax = open(member("p", "20 path=dir/a=b.jpg\n9 size=5\n", 'x') +
                       header("a", '0', octal(0)) + padded("hello") + member("b", "x"));
  ASSERT_EQ(pax.entries().size(), 2u);
  EXPECT_EQ(pax.entries()[0].name, "dir/a=b.jpg");
  EXPECT_EQ(contents(pax, pax.entries()[0]), "hello");
  EXPECT_EQ(pax.entries()[1].name, "b");
}

TEST_F(Tar, SkipsEverythingButFiles) {
  const TarReader tar =
      open(member("g", "11 path=zz\n", 'g') + member("a/", "", '5') + member("hard", "", '1') +
           member("old/", "", '\0') + member("fifo", "", '6') + header("link", '2', octal(999)) +
           member("volume", "123", 'V') + member("old", "x", '\0'));
  ASSERT_EQ(tar.entries().size(), 1u);
  EXPECT_EQ(tar.entries()[0].name, "old");
  EXPECT_EQ(contents(tar, tar.entries()[0]), "x");
}

std::string link(const std::string& name, char type, const std::string& target) {
  auto out = header(name, type, octal(0));
  out.replace(157, target.size(), target);
  set_checksum(out);
  return out;
}

TEST_F(Tar, HardLinksAreFilesAndSymbolicOnesAreNamed) {
  testing::internal::CaptureStderr();
  const auto tar = open(member("a", "hello") + link("b", '1', "a") + member("c", "world") +
                        link("d", '1', "b") + link("e", '1', "missing") + link("f", '2', "a"));
  const auto log = testing::internal::GetCapturedStderr();
  ASSERT_EQ(tar.entries().size(), 4u);
  const std::vector<std::pair<std::string, std::string>> expected = {
      {"a", "hello"}, {"b", "hello"}, {"c", "world"}, {"d", "hello"}};
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(tar.entries()[i].name, expected[i].first);
    EXPECT_EQ(contents(tar, tar.entries()[i]), expected[i].second);
  }
  EXPECT_NE(log.find("skipped 1 symbolic link; tar -h"), std::string::npos) << log;
  EXPECT_NE(log.find("skipped 1 hard link to files that do not"), std::string::npos) << log;
}

TEST_F(Tar, CorruptArchives) {
  const std::string file = member("a", "one");
  EXPECT_EQ(error_of(""), "a.tar: is empty; make or download the archive again");
  EXPECT_EQ(error_of(std::string(600, 'x')),
            "a.tar: not a tar archive (wrong checksum at offset 0)");
  std::string damaged = file + file;
  damaged[1024] ^= 1;
  EXPECT_EQ(error_of(damaged),
            "a.tar: corrupt tar header (wrong checksum) at offset 1024; make or download the "
            "archive again");
  EXPECT_EQ(error_of(file + file.substr(0, 100)),
            "a.tar: truncated tar archive (incomplete header) at offset 1024; make or download the "
            "archive again");
  EXPECT_EQ(error_of(file + header("b", '0', octal(513)) + padded("x")),
            "a.tar: truncated tar archive (entry of 513 bytes goes beyond the end) at offset 1024; "
            "make or "
            "download the archive again");
}

TEST_F(Tar, CorruptHeadersAndRecords) {
  const std::string file = member("a", "one");
  const std::string huge = '\x80' + std::string(11, '\x7f'), negative(12, '\xff');
  for (const std::string& size : {huge, negative, std::string("12x"), std::string("-1")})
    EXPECT_NE(error_of(header("a", '0', size) + padded("x")), "") << size;
  EXPECT_NE(error_of(header("a", 'x', octal(1 << 30)) + file), "");
  EXPECT_NE(error_of(header("a", 'L', huge) + file), "");
  for (const std::string records :
       {"x", "5 a=b", "99 path=b\n", "0 path=b\n", "9 path=bc", "7 path\n",
        "9999999999999999999 a=b\n", "10 size=x\n", "8 size=\n", "18 GNU.sparse.a=1\n"})
    EXPECT_NE(error_of(member("p", records, 'x') + file), "") << records;
  EXPECT_NE(error_of(member("long", "name", 'L')), "");
  EXPECT_NE(error_of(member("sparse", "123", 'S')), "");
  EXPECT_THROW(TarReader(folder_ / "missing.tar"), UserError);
  EXPECT_THROW(TarReader(folder_.path()), UserError);
}

TEST_F(Tar, ShrunkWhileOpen) {
  const TarReader tar = open(member("a", "one") + member("b", "two"));
  std::filesystem::resize_file(folder_ / "a.tar", 1024);
  EXPECT_EQ(contents(tar, tar.entries()[0]), "one");
  EXPECT_THROW(tar.read(tar.entries()[1]), RunError);
}

TEST_F(Tar, PipesAreRefused) {
  ASSERT_EQ(::mkfifo((folder_ / "pipe.tar").c_str(), 0600), 0);
  EXPECT_THROW(TarReader(folder_ / "pipe.tar"), UserError);
}

TEST_F(Tar, MoreArchivesThanMayBeOpen) {
  std::ofstream(folder_ / "b.tar", std::ios::binary) << member("a", "one") + member("b", "two");
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit low = before;
  low.rlim_cur = 64;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  try {
    std::vector<TarReader> readers;
    for (int i = 0; i < 200; ++i) readers.emplace_back(folder_ / "b.tar");
    for (const auto& reader : readers) EXPECT_EQ(contents(reader, reader.entries()[1]), "two");
    std::ofstream(folder_ / "b.tar", std::ios::binary) << member("a", "other");
    EXPECT_THROW(readers.back().read(readers.back().entries()[1]), RunError);
  } catch (const std::exception& error) {
    ADD_FAILURE() << error.what();
  }
  EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST_F(Tar, PrefixesThatEndWithinAFileAreRefused) {
  const std::string whole = member("a", "one") + member("l", std::string(120, 'n'), 'L') +
                            member("b", std::string(600, 'x')) + member("p", "12 path=new\n", 'x') +
                            member("c", "three");
  ASSERT_EQ(open(whole).entries().size(), 3u);
  const std::vector<size_t> ends = {1024, 3584, whole.size()};  // whole files
  for (size_t size = 1; size <= whole.size(); ++size) {
    const bool is_end = std::find(ends.begin(), ends.end(), size) != ends.end();
    EXPECT_EQ(error_of(whole.substr(0, size)).empty(), is_end) << size;
  }
}

TEST_F(Tar, ManyEntries) {
  std::string bytes;
  for (int i = 0; i < 20000; ++i) bytes += member(fmt::format("{:05}", i), "x");
  const TarReader tar = open(bytes);
  ASSERT_EQ(tar.entries().size(), 20000u);
  EXPECT_EQ(tar.entries()[12345].name, "12345");
}

}  // namespace
}  // namespace nsvq
