#include "nsvq/data/images/grid.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>

#include "nsvq/core/error.h"

namespace nsvq {
namespace {

Image plain(int width, int height, uint8_t first) {
  Image image{width, height, {}};
  for (int i = 0; i < width * height * 3; ++i)
    image.pixels.push_back(static_cast<uint8_t>(first + i));
  return image;
}

uint8_t at(const Image& image, int x, int y, int channel) {
  return image.pixels[(size_t{1} * y * image.width + x) * 3 + channel];
}

TEST(Grid, ToImageRoundsAndClamps) {
  const float nan = std::nanf(""), inf = std::numeric_limits<float>::infinity();
  const auto values = torch::tensor({-1.f, 1.f, 0.f, -2.f, 3.f, nan, inf, -inf, 1 / 127.5f - 1,
                                     0.49f / 127.5f - 1, 0.51f / 127.5f - 1, 254.49f / 127.5f - 1})
                          .reshape({1, 1, 12})
                          .expand({3, 1, 12});
  const Image image = to_image(values);
  ASSERT_EQ(image.width, 12);
  ASSERT_EQ(image.height, 1);
  const uint8_t expected[] = {0, 255, 128, 0, 255, 0, 255, 0, 1, 0, 1, 254};
  for (int x = 0; x < 12; ++x)
    for (int channel = 0; channel < 3; ++channel)
      EXPECT_EQ(at(image, x, 0, channel), expected[x]) << x;
}

TEST(Grid, BytesBelowLoseTheirRest) {
  const auto levels = torch::arange(256, torch::kFloat);
  const auto between = (levels.slice(0, 0, 255) + 0.75) / 127.5 - 1;
  EXPECT_TRUE(torch::equal(to_bytes_below(between).to(torch::kFloat), levels.slice(0, 0, 255)));
  EXPECT_TRUE(torch::equal(to_bytes(between).to(torch::kFloat), levels.slice(0, 1)));
  const auto ends = torch::tensor({-7.f, -1.f, 1.f, 7.f, std::nanf("")});
  EXPECT_TRUE(
      torch::equal(to_bytes_below(ends).to(torch::kLong), torch::tensor({0, 0, 255, 255, 0})));
  // What they become again is rounded to the same bytes.
  const auto bytes = levels.to(torch::kByte);
  EXPECT_TRUE(torch::equal(to_bytes(from_bytes(bytes)), bytes));
}

TEST(Grid, ToImageOrdersChannelsAndRows) {
  const auto bytes = torch::arange(3 * 5 * 7).reshape({3, 5, 7});
  for (const auto type : {torch::kFloat, torch::kDouble}) {
    // Not contiguous: the layout must not matter.
    const auto chw =
        (bytes.to(type) / 127.5 - 1).permute({1, 2, 0}).contiguous().permute({2, 0, 1});
    const Image image = to_image(chw.set_requires_grad(true));
    ASSERT_EQ(image.width, 7);
    ASSERT_EQ(image.height, 5);
    for (int y = 0; y < 5; ++y)
      for (int x = 0; x < 7; ++x)
        for (int c = 0; c < 3; ++c) EXPECT_EQ(at(image, x, y, c), c * 35 + y * 7 + x);
  }
}

TEST(Grid, ToImageRefusesOtherShapes) {
  EXPECT_THROW(to_image(torch::zeros({1, 4, 4})), UserError);
  EXPECT_THROW(to_image(torch::zeros({1, 3, 4, 4})), UserError);
  EXPECT_THROW(to_image(torch::Tensor()), UserError);
  EXPECT_EQ(to_image(torch::zeros({3, 0, 4})).pixels.size(), 0u);
}

TEST(Grid, EveryPixelIsWhereArithmeticPutsIt) {
  const int w = 3, h = 2, gap = 2;
  const std::vector<std::vector<Image>> rows = {
      {plain(w, h, 0), plain(w, h, 20), plain(w, h, 40)}, {plain(w, h, 60)}, {}};
  const Image grid = make_grid(rows, gap);
  ASSERT_EQ(grid.width, 3 * w + 2 * gap);
  ASSERT_EQ(grid.height, 3 * h + 2 * gap);
  for (int y = 0; y < grid.height; ++y)
    for (int x = 0; x < grid.width; ++x)
      for (int c = 0; c < 3; ++c) {
        const size_t row = y / (h + gap), column = x / (w + gap);
        const int dy = y % (h + gap), dx = x % (w + gap);
        const bool inside = dy < h && dx < w && column < rows[row].size();
        EXPECT_EQ(at(grid, x, y, c), inside ? at(rows[row][column], dx, dy, c) : 255)
            << x << ' ' << y;
      }
}

TEST(Grid, OddSizes) {
  EXPECT_EQ(make_grid({}).width, 0);
  EXPECT_EQ(make_grid({{}, {}}).pixels.size(), 0u);
  const Image one = plain(1, 1, 7);
  EXPECT_EQ(make_grid({{one}}).pixels, one.pixels);
  const Image row = make_grid({{one, one}}, 0);
  EXPECT_EQ(row.pixels, (std::vector<uint8_t>{7, 8, 9, 7, 8, 9}));
  EXPECT_EQ(make_grid({std::vector<Image>(31, one), std::vector<Image>(33, one)}).width,
            33 + 32 * 2);
}

TEST(Grid, CellsAreAsLargeAsTheLargestImageOfTheirColumnAndRow) {
  const std::vector<std::vector<Image>> rows = {{plain(2, 3, 0), plain(4, 1, 20)},
                                                {plain(1, 2, 40), plain(3, 2, 60)}};
  const Image grid = make_grid(rows, 1);
  ASSERT_EQ(grid.width, 2 + 1 + 4);
  ASSERT_EQ(grid.height, 3 + 1 + 2);
  const auto inside = [&](size_t row, size_t column, int x, int y) {
    const Image& image = rows[row][column];
    return x >= 0 && y >= 0 && x < image.width && y < image.height;
  };
  for (int y = 0; y < grid.height; ++y)
    for (int x = 0; x < grid.width; ++x) {
      const size_t row = y < 4 ? 0 : 1, column = x < 3 ? 0 : 1;
      const int dx = x - (column ? 3 : 0), dy = y - (row ? 4 : 0);
      EXPECT_EQ(at(grid, x, y, 0),
                inside(row, column, dx, dy) ? at(rows[row][column], dx, dy, 0) : 255)
          << x << ' ' << y;
    }
}

TEST(Grid, RefusesWhatDoesNotFit) {
  EXPECT_THROW(make_grid({{plain(2, 2, 0)}}, -1), UserError);
  EXPECT_THROW(make_grid({{Image{2, 2, {1, 2, 3}}}}), UserError);
}

TEST(Grid, EnlargeRepeatsPixels) {
  const Image small = plain(3, 2, 0);
  const Image large = enlarge(small, 4);
  ASSERT_EQ(large.width, 12);
  ASSERT_EQ(large.height, 8);
  for (int y = 0; y < 8; ++y)
    for (int x = 0; x < 12; ++x)
      for (int c = 0; c < 3; ++c) EXPECT_EQ(at(large, x, y, c), at(small, x / 4, y / 4, c));
  EXPECT_EQ(enlarge(small, 1).pixels, small.pixels);
  EXPECT_EQ(enlarge(Image{}, 3).width, 0);
  EXPECT_THROW(enlarge(small, 0), UserError);
}

}  // namespace
}  // namespace nsvq
