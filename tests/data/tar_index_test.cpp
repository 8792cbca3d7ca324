#include "nsvq/io/formats/tar_index.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "nsvq/data/sources/tar_source.h"
#include "nsvq/io/files/index_cache.h"
#include "nsvq/io/formats/packed.h"
#include "tests/data/files.h"
#include "tests/environment.h"

namespace nsvq {
namespace {

namespace fs = std::filesystem;
using namespace testing_files;

/// Two archives with two images each, and an index cache of their own.
class TarIndex : public ::testing::Test {
 protected:
  TarIndex() {
    write("a.tar", {"a/1.png", "a/2.png"});
    write("b.tar", {"b/3.png", "b/4.png"});
  }

  /// As if it were made an hour ago: what was changed just now is not kept.
  void write(const std::string& name, const std::vector<std::string>& images) {
    TarFiles files;
    for (const auto& image : images) {
      files.emplace_back(image, png_text(plain_image(8, 8, static_cast<uint8_t>(image[2]))));
    }
    write_text(folder_ / name, make_tar(files));
    set_age(name, std::chrono::hours(1));
  }
  void set_age(const std::string& name, std::chrono::seconds age) {
    fs::last_write_time(folder_ / name, fs::file_time_type::clock::now() - age);
  }

  std::vector<fs::path> archives() const { return {folder_ / "a.tar", folder_ / "b.tar"}; }
  fs::path cached() const {
    std::vector<fs::path> files;
    if (fs::exists(cache_)) files.assign(fs::directory_iterator(cache_), {});
    EXPECT_LE(files.size(), 1U);
    return files.empty() ? fs::path() : files[0];
  }
  std::vector<bool> scanned() const {
    auto known = load_tar_index(archives());
    std::vector<bool> scanned;
    for (size_t i = 0; i < known.size(); ++i) {
      scanned.push_back(TarReader(archives()[i], known[i]).scanned());
    }
    return scanned;
  }
  void expect_images(const std::vector<std::string>& keys) const {
    const TarSource source(archives());
    EXPECT_EQ(keys_of(source), keys);
    for (int64_t i = 0; i < source.size(); ++i) {
      EXPECT_EQ(source.load(i).pixels[0], static_cast<uint8_t>(source.key(i)[2]));
    }
  }

  const std::vector<std::string> keys_ = {"a/1.png", "a/2.png", "b/3.png", "b/4.png"};
  const std::vector<bool> none_ = {false, false}, both_ = {true, true};
  TempFolder folder_;
  const fs::path cache_ = folder_ / "cache";
  Environment variable_{"NSVQ_INDEX_CACHE", cache_.string()};
};

TEST_F(TarIndex, ArchivesAreScannedOnce) {
  EXPECT_EQ(scanned(), both_);
  expect_images(keys_);
  EXPECT_EQ(scanned(), none_);
  expect_images(keys_);
}

TEST_F(TarIndex, AChangedArchiveIsScannedAgain) {
  expect_images(keys_);
  write("b.tar", {"b/5.png", "b/6.png"});  // the same size and time
  EXPECT_EQ(scanned(), (std::vector<bool>{false, true}));
  expect_images({"a/1.png", "a/2.png", "b/5.png", "b/6.png"});
  EXPECT_EQ(scanned(), none_);
}

TEST_F(TarIndex, AnArchiveChangedJustNowIsNotKept) {
  set_age("b.tar", std::chrono::seconds(0));
  expect_images(keys_);
  EXPECT_EQ(scanned(), (std::vector<bool>{false, true}));
}

TEST_F(TarIndex, ADamagedFileIsWrittenAgain) {
  expect_images(keys_);
  const auto whole = read_text(cached());
  for (size_t i = 0; i < whole.size(); i += 7) {
    auto damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    write_text(cached(), i % 2 == 0 ? damaged : whole.substr(0, i));
    EXPECT_EQ(scanned(), both_) << i;
  }
  expect_images(keys_);
  EXPECT_EQ(read_text(cached()), whole);
  EXPECT_EQ(scanned(), none_);
}

TEST_F(TarIndex, TheFileOfOtherArchivesIsNotBelieved) {
  expect_images(keys_);
  const auto whole = read_text(cached());
  fs::remove(cached());
  { const TarSource other({folder_ / "b.tar", folder_ / "a.tar"}); }
  write_text(cached(), whole);  // under the name of the other set
  const auto known = load_tar_index({folder_ / "b.tar", folder_ / "a.tar"});
  EXPECT_TRUE(known[0].entries.empty());
}

/// Files that were made to mislead, with a hash that holds.
TEST_F(TarIndex, NumbersAreChecked) {
  expect_images(keys_);
  const auto name = cached().filename().string();
  const auto state = TarReader(folder_ / "a.tar").contents().state;
  const auto key = PackedReader(*read_index(name)).text();
  const auto pack = [&](int64_t count, int64_t offset, int64_t size, int64_t name_size) {
    PackedWriter out;
    out.text(key);
    for (int i = 0; i < 2; ++i) {
      for (const int64_t part : {state.bytes, state.changed, state.status_changed, state.inode}) {
        out.number(part);
      }
      out.number(count);
      out.number(offset);
      out.number(size);
      out.number(name_size);
    }
    return out.bytes();
  };
  ASSERT_TRUE(write_index(name, pack(1, 512, 10, 0)));
  EXPECT_EQ(load_tar_index(archives())[0].entries.size(), 1U);  // so that the rest shows something
  constexpr int64_t most = INT64_MAX, least = INT64_MIN;
  const std::vector<std::vector<int64_t>> hostile = {{1, state.bytes - 5, 10, 0},
                                                     {1, 512, state.bytes, 0},
                                                     {1, most, 10, 0},
                                                     {1, 512, most, 0},
                                                     {1, -512, 10, 0},
                                                     {1, 512, -1, 0},
                                                     {1, least, most, 0},
                                                     {1, 512, 10, most},
                                                     {1, 512, 10, -1},
                                                     {most, 512, 10, 0},
                                                     {-1, 512, 10, 0},
                                                     {2, 512, 10, 0},
                                                     {0, 512, 10, 0}};
  for (const auto& numbers : hostile) {
    ASSERT_TRUE(write_index(name, pack(numbers[0], numbers[1], numbers[2], numbers[3])));
    for (const auto& contents : load_tar_index(archives())) EXPECT_TRUE(contents.entries.empty());
    expect_images(keys_);
  }
}

TEST_F(TarIndex, OffMeansOff) {
  const Environment off("NSVQ_INDEX_CACHE", "off");
  expect_images(keys_);
  EXPECT_EQ(scanned(), both_);
  EXPECT_FALSE(fs::exists(cache_));
}

TEST_F(TarIndex, WithoutAPlaceToWriteThereIsNone) {
  write_text(folder_ / "file", "no folder");
  const Environment under_a_file("NSVQ_INDEX_CACHE", folder_.text("file/cache"));
  expect_images(keys_);
  EXPECT_EQ(scanned(), both_);
}

TEST_F(TarIndex, LiesInTheCacheFolder) {
  const Environment unset("NSVQ_INDEX_CACHE", std::nullopt);
  const Environment cache("XDG_CACHE_HOME", folder_.text("xdg"));
  expect_images(keys_);
  EXPECT_EQ(scanned(), none_);
  EXPECT_TRUE(fs::exists(folder_ / "xdg" / "nsvq" / "index"));
}

TEST_F(TarIndex, CompressedArchivesAreReadAsBefore) {
  for (const auto& path : archives()) {
    write_text(path, zstd(read_text(path)));
    set_age(path.filename(), std::chrono::hours(1));
  }
  expect_images(keys_);
  expect_images(keys_);
  EXPECT_TRUE(cached().empty());
}

TEST_F(TarIndex, SeveralMayReadAndWriteAtOnce) {
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this] {
      for (int round = 0; round < 10; ++round) expect_images(keys_);
    });
  }
  threads.clear();
  EXPECT_EQ(scanned(), none_);
}

}  // namespace
}  // namespace nsvq
