// Images in .npz files. Files that numpy wrote are in tests/python/npz.py.
#include "nsvq/data/sources/npz_source.h"

#include <gtest/gtest.h>

#include <thread>

#include "nsvq/io/files/file.h"
#include "tests/data/files.h"
#include "tests/data/open_errors.h"
#include "tests/npz_images.h"

namespace nsvq {
namespace {

using namespace testing_files;

class NpzSources : public testing::Test {
 protected:
  std::string write(const std::string& bytes) {
    write_text(folder_ / "images.npz", bytes);
    return folder_.text("images.npz");
  }

  TempFolder folder_;
};

/// Pixel i of all images in a row.
char pixel(int64_t i) { return static_cast<char>(i * i % 251); }

std::string pixels(int64_t count) {
  std::string text;
  for (int64_t i = 0; i < count; ++i) text += pixel(i);
  return text;
}

TEST_F(NpzSources, ImagesLieInOrderByRows) {
  constexpr int64_t count = 33, height = 5, width = 7, size = height * width * 3;
  const auto source = open_source(write(npz_images(count, height, width, pixels(count * size))));
  ASSERT_EQ(source->size(), count);
  EXPECT_EQ(source->key(7), "000007");
  EXPECT_EQ(source->label(7), -1);
  const auto check = [&](int64_t index) {
    const auto image = source->load(index);
    EXPECT_EQ(image.width, width);
    EXPECT_EQ(image.height, height);
    ASSERT_EQ(std::ssize(image.pixels), size);
    for (int64_t i = 0; i < size; ++i) {
      ASSERT_EQ(static_cast<char>(image.pixels[i]), pixel(index * size + i)) << index << " " << i;
    }
  };
  for (const int64_t index : {32, 0, 17, 17, 1}) check(index);
  EXPECT_THROW(source->load(count), std::out_of_range);
  EXPECT_THROW(source->load(-1), std::out_of_range);
  std::vector<std::jthread> threads;
  for (int64_t first = 0; first < 3; ++first) {
    threads.emplace_back([&check, first] {
      for (int64_t i = first; i < count; i += 3) check(i);
    });
  }
}

TEST_F(NpzSources, ClassesStandBesideThem) {
  EXPECT_EQ(labels_of(*open_source(write(npz_images(3, 1, 1, pixels(9), {4, 0, 4})))),
            (std::vector<int64_t>{4, 0, 4}));
  // Anything else than a class for each image is left alone.
  EXPECT_EQ(labels_of(*open_source(write(npz_images(3, 1, 1, pixels(9), {4, 0})))),
            (std::vector<int64_t>{-1, -1, -1}));
  EXPECT_EQ(labels_of(*open_source(write(npz_images(2, 1, 1, pixels(6), {4, -1})))),
            (std::vector<int64_t>{-1, -1}));
}

TEST_F(NpzSources, OtherContentsGetOneLine) {
  const auto refused = [&](const std::string& bytes, std::vector<std::string> parts) {
    parts.emplace_back("images.npz");
    expect_open_error(write(bytes), parts);
  };
  const auto array = [](const std::string& descr, const std::vector<int64_t>& shape, size_t bytes) {
    return zip_text({{"arr_0.npy", npy_text(descr, shape, std::string(bytes, 'x'))}});
  };
  refused("no zip file", {"not a zip file"});
  refused(zip_text({{"mu.npy", npy_text("<f8", {1}, std::string(8, 'x'))}}),
          {"no array 'arr_0' of images (there are: mu.npy)"});
  refused(array("<f4", {1, 2, 2, 3}, 48), {"'<f4'"});
  refused(array("<i8", {1, 2, 2, 3}, 96), {"uint8 [N, H, W, 3]", "[1, 2, 2, 3] of Long"});
  refused(array("|u1", {2, 2, 3}, 12), {"[2, 2, 3]", "uint8 [N, H, W, 3]"});
  refused(array("|u1", {1, 3, 2, 2}, 12), {"[1, 3, 2, 2]", "uint8 [N, H, W, 3]"});
  refused(array("|u1", {2, 2, 2, 3}, 23), {"has 23 bytes of pixels"});
  refused(array("|u1", {2, 0, 2, 3}, 0), {"zero size"});
  refused(array("|u1", {0, 2, 2, 3}, 0), {"no image"});
  refused(array("|u1", {1, 70000, 1, 3}, 210000), {"70000"});
  const auto image = npy_text("|u1", {1, 2, 2, 3}, pixels(12));
  refused(zip_text({{"arr_0.npy", image}}, /*compressed=*/true), {"compressed"});
  const auto whole = npz_images(1, 2, 2, pixels(12));
  refused(whole.substr(0, whole.size() - 30), {});
}

}  // namespace
}  // namespace nsvq
