#include "nsvq/data/images/transform.h"

#include <gtest/gtest.h>

#include "nsvq/core/error.h"
#include "nsvq/data/sources/combined_sources.h"

namespace nsvq {
namespace {

/// Pixel (x, y) is (x, y, 7).
Image coordinates(int width, int height) {
  Image image{width, height, {}};
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      for (const int value : {x, y, 7}) image.pixels.push_back(static_cast<uint8_t>(value));
  return image;
}

std::pair<int, int> at(const Image& image, int x, int y) {
  const size_t place = (static_cast<size_t>(y) * image.width + x) * 3;
  EXPECT_EQ(image.pixels.at(place + 2), 7);
  return {image.pixels.at(place), image.pixels.at(place + 1)};
}

using Place = std::pair<int, int>;

TEST(Fit, PadMirrorsAndCutTakesItOff) {
  const auto image = coordinates(13, 17);
  const auto padded = fit_to_stride(image, Fit::pad, 8);
  EXPECT_EQ(padded.width, 16);
  EXPECT_EQ(padded.height, 24);
  EXPECT_EQ(at(padded, 12, 16), Place(12, 16));
  EXPECT_EQ(at(padded, 13, 17), Place(11, 15));
  EXPECT_EQ(at(padded, 15, 23), Place(9, 9));
  EXPECT_EQ(crop_corner(padded, 13, 17).pixels, image.pixels);
}

TEST(Fit, PadOfPicturesSmallerThanThePadding) {
  const auto row = fit_to_stride(coordinates(3, 1), Fit::pad, 8);
  std::vector<int> columns;
  for (int x = 0; x < 8; ++x) columns.push_back(at(row, x, 7).first);
  EXPECT_EQ(columns, (std::vector<int>{0, 1, 2, 1, 0, 1, 2, 1}));
  EXPECT_EQ(row.height, 8);
}

TEST(Fit, CropTakesTheCentre) {
  const auto cropped = fit_to_stride(coordinates(13, 17), Fit::crop, 8);
  EXPECT_EQ(cropped.width, 8);
  EXPECT_EQ(cropped.height, 16);
  EXPECT_EQ(at(cropped, 0, 0), Place(2, 0));
  EXPECT_EQ(at(cropped, 7, 15), Place(9, 15));
  EXPECT_THROW(fit_to_stride(coordinates(13, 7), Fit::crop, 8), UserError);
}

TEST(Fit, ResizeGoesToTheNearestMultiple) {
  const auto image = coordinates(13, 3);
  const auto resized = fit_to_stride(image, Fit::resize, 8);
  EXPECT_EQ(resized.pixels, resize_bilinear(image, 16, 8).pixels);
  EXPECT_EQ(fit_to_stride(coordinates(11, 12), Fit::resize, 8).width, 8);
  EXPECT_EQ(fit_to_stride(coordinates(11, 12), Fit::resize, 8).height, 16);
}

TEST(Fit, AFittingPictureStays) {
  for (const auto fit : {Fit::resize, Fit::crop, Fit::pad}) {
    EXPECT_EQ(fit_to_stride(coordinates(16, 8), fit, 8).pixels, coordinates(16, 8).pixels);
    EXPECT_EQ(fit_to_stride(coordinates(5, 3), fit, 1).pixels, coordinates(5, 3).pixels);
  }
}

TEST(Fit, BadPictures) {
  EXPECT_THROW(fit_to_stride({}, Fit::pad, 8), UserError);
  EXPECT_THROW(crop_corner(coordinates(4, 4), 5, 4), UserError);
  EXPECT_THROW(crop_corner(coordinates(4, 4), 0, 4), UserError);
}

TEST(LimitedSource, HasTheFirstImages) {
  const std::shared_ptr<const Source> all = open_source("builtin:dead-leaves?size=8&count=5");
  EXPECT_EQ(LimitedSource(all, 3).size(), 3);
  EXPECT_EQ(LimitedSource(all, 9).size(), 5);
  EXPECT_EQ(limited(all, 2)->size(), 2);
  EXPECT_EQ(limited(all, 9)->size(), 5);
  EXPECT_EQ(limited(all, 0), all);
  EXPECT_EQ(LimitedSource(all, 3).key(2), all->key(2));
  EXPECT_EQ(LimitedSource(all, 3).load(1).pixels, all->load(1).pixels);
}

}  // namespace
}  // namespace nsvq
