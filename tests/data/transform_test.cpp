#include "nsvq/data/images/transform.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "nsvq/core/error.h"

namespace nsvq {
namespace {

uint64_t fnv1a(const void* data, size_t size) {
  uint64_t value = 0xcbf29ce484222325ULL;
  for (size_t i = 0; i < size; ++i)
    value = (value ^ static_cast<const uint8_t*>(data)[i]) * 0x100000001b3ULL;
  return value;
}

/// The picture of golden/transform.py.
Image picture(int width, int height, int kind = 0) {
  Image image{width, height, std::vector<uint8_t>(size_t{3} * width * height)};
  uint32_t state = static_cast<uint32_t>(width) * 65537 + static_cast<uint32_t>(height);
  for (uint8_t& value : image.pixels) {
    state = state * 1664525 + 1013904223;
    value = static_cast<uint8_t>(state >> 24);
    if (kind == 1) value = value > 127 ? 255 : 0;
  }
  return image;
}

std::vector<float> apply(const Image& image, const TransformOptions& options, uint64_t seed = 0) {
  std::vector<float> out(size_t{3} * options.output_height() * options.output_width());
  transform(image, options, seed, out);
  return out;
}

std::vector<std::string> golden_lines(const std::string& kind) {
  std::ifstream in(NSVQ_TESTS_DIR "/golden/transform.txt");
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);)
    if (line.rfind(kind + " ", 0) == 0) lines.push_back(line.substr(kind.size() + 1));
  return lines;
}

TEST(Transform, ResizeEqualsPillow) {
  const auto lines = golden_lines("resize");
  ASSERT_EQ(lines.size(), 90u);
  for (const std::string& line : lines) {
    std::istringstream in(line);
    int width, height, kind, to_width, to_height;
    uint64_t hash;
    in >> width >> height >> kind >> to_width >> to_height >> std::hex >> hash;
    ASSERT_TRUE(in) << line;
    const Image out = resize_bilinear(picture(width, height, kind), to_width, to_height);
    EXPECT_EQ(out.width, to_width);
    EXPECT_EQ(out.height, to_height);
    EXPECT_EQ(fnv1a(out.pixels.data(), out.pixels.size()), hash) << line;
  }
}

TEST(Transform, CenterCropEqualsTorchvision) {
  const auto lines = golden_lines("center");
  ASSERT_EQ(lines.size(), 52u);
  for (const std::string& line : lines) {
    std::istringstream in(line);
    int width, height, kind, size;
    uint64_t hash;
    in >> width >> height >> kind >> size >> std::hex >> hash;
    ASSERT_TRUE(in) << line;
    const auto out = apply(picture(width, height, kind), {size, Crop::center, false});
    EXPECT_EQ(fnv1a(out.data(), out.size() * sizeof(float)), hash) << line;
  }
}

TEST(Transform, CoveringCropEqualsPillow) {
  const auto lines = golden_lines("cover");
  ASSERT_EQ(lines.size(), 45u);
  for (const std::string& line : lines) {
    std::istringstream in(line);
    int width, height, kind, out_height, out_width;
    uint64_t hash;
    in >> width >> height >> kind >> out_height >> out_width >> std::hex >> hash;
    ASSERT_TRUE(in) << line;
    const TransformOptions options{.height = out_height, .width = out_width};
    const auto out = apply(picture(width, height, kind), options);
    EXPECT_EQ(fnv1a(out.data(), out.size() * sizeof(float)), hash) << line;
  }
}

/// A window of the resized image as transform writes it.
std::vector<float> window_of(const Image& resized, int left, int top, int size, bool flip) {
  std::vector<float> out;
  for (int c = 0; c < 3; ++c)
    for (int y = 0; y < size; ++y)
      for (int x = 0; x < size; ++x) {
        const int column = left + (flip ? size - 1 - x : x);
        const int value = resized.pixels[((top + y) * size_t(resized.width) + column) * 3 + c];
        out.push_back(static_cast<float>(value / 127.5 - 1.0));
      }
  return out;
}

/// Where `example` lies: 2 * position + flip, or -1.
int find_window(const std::vector<float>& example, const Image& resized, int size) {
  const bool wide = resized.width > resized.height;
  for (int at = 0; at <= std::max(resized.width, resized.height) - size; ++at)
    for (const bool flip : {false, true})
      if (example == window_of(resized, wide ? at : 0, wide ? 0 : at, size, flip))
        return 2 * at + flip;
  return -1;
}

TEST(Transform, RandomCropsAreWindowsOfTheResizedImage) {
  const int size = 8;
  for (const auto& [width, height] : {std::pair{33, 20}, {20, 33}, {12, 8}, {5, 7}}) {
    const Image image = picture(width, height);
    const int shorter = std::min(width, height);
    const Image resized = resize_bilinear(image, size * width / shorter, size * height / shorter);
    std::set<int> seen;
    for (uint64_t seed = 0; seed < 200; ++seed)
      seen.insert(find_window(apply(image, {size, Crop::random, true}, seed), resized, size));
    const size_t positions = std::max(resized.width, resized.height) - size + 1;
    EXPECT_EQ(seen.count(-1), 0u);
    EXPECT_EQ(seen.size(), 2 * positions) << width << " x " << height;
  }
}

TEST(Transform, SeedDecidesCropAndFlip) {
  const Image image = picture(64, 31);
  const TransformOptions options{16, Crop::random, true};
  EXPECT_EQ(apply(image, options, 5), apply(image, options, 5));
  int flipped = 0;
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    const auto plain = apply(picture(4, 4), {4, Crop::random, false}, seed);
    flipped += plain != apply(picture(4, 4), {4, Crop::random, true}, seed);
  }
  EXPECT_GT(flipped, 430);
  EXPECT_LT(flipped, 570);
}

TEST(Transform, CenterCropDoesNotDependOnTheSeed) {
  const Image image = picture(64, 31);
  EXPECT_EQ(apply(image, {16, Crop::center, false}, 1), apply(image, {16, Crop::center, false}, 2));
}

TEST(Transform, ImageOfTheRightSizeIsUnchanged) {
  const Image image = picture(33, 33);
  EXPECT_EQ(apply(image, {33, Crop::random, false}), window_of(image, 0, 0, 33, false));
  EXPECT_EQ(resize_bilinear(image, 33, 33).pixels, image.pixels);
}

TEST(Transform, EndsOfTheRange) {
  Image image{1, 1, {0, 255, 51}};
  const auto out = apply(image, {3, Crop::center, false});
  for (int i = 0; i < 9; ++i) {
    EXPECT_EQ(out[i], -1.0f);
    EXPECT_EQ(out[9 + i], 1.0f);
    EXPECT_FLOAT_EQ(out[18 + i], -0.6f);
  }
}

TEST(Transform, LevelsOfTheBytesAreTheFloats) {
  for (const uint64_t seed : {1, 2, 3}) {
    const Image image = picture(41, 33);
    const TransformOptions options{.crop = Crop::random, .flip = true, .height = 17, .width = 31};
    std::vector<uint8_t> bytes(3 * 17 * 31);
    transform(image, options, seed, bytes);
    std::vector<float> levels;
    for (const uint8_t byte : bytes) levels.push_back(pixel_levels()[byte]);
    EXPECT_EQ(levels, apply(image, options, seed));
  }
}

TEST(Transform, VeryLongImageCostsOnlyItsWindow) {
  const Image image = picture(60000, 1);  // resized: 15 million x 256
  const auto out = apply(image, {256, Crop::random, false}, 3);
  EXPECT_TRUE(std::all_of(out.begin(), out.end(), [](float v) { return v >= -1 && v <= 1; }));
}

TEST(Transform, RejectsBadArguments) {
  std::vector<float> out(12);
  EXPECT_THROW(transform(Image{}, {2, Crop::center, false}, 0, out), UserError);
  EXPECT_THROW(transform(Image{2, 2, {1, 2, 3}}, {2, Crop::center, false}, 0, out), UserError);
  EXPECT_THROW(transform(picture(2, 2), {0, Crop::center, false}, 0, out), UserError);
  EXPECT_THROW(transform(picture(2, 2), {3, Crop::center, false}, 0, out), RunError);
  EXPECT_THROW(resize_bilinear(picture(2, 2), 0, 2), UserError);
}

}  // namespace
}  // namespace nsvq
