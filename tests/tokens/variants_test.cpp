#include "nsvq/tokens/variants.h"

#include <gtest/gtest.h>

namespace nsvq {
namespace {

/// Images whose pixels are their place: row * 100 + column.
torch::Tensor places(int64_t height, int64_t width) {
  const auto rows = at::arange(height).view({-1, 1}) * 100, columns = at::arange(width);
  return (rows + columns).to(at::kFloat).expand({2, 3, height, width});
}

/// Row and column of a window's first pixel, and of its last.
std::vector<int64_t> corners(const torch::Tensor& window) {
  const auto at = [&](int64_t row, int64_t column) {
    return window[1][2][row][column].item<int64_t>();
  };
  const auto first = at(0, 0), last = at(-1, -1);
  return {first / 100, first % 100, last / 100, last % 100};
}

/// 16 x 32 pixels of 17 x 35. torchvision's TenCrop, by its code for such an image.
TEST(Variants, TenCropsAreThoseOfTorchvision) {
  const TransformOptions transform{.height = 16, .width = 32};
  const auto whole = enlarged(transform);
  EXPECT_EQ(whole.output_height(), 17);
  EXPECT_EQ(whole.output_width(), 35);
  EXPECT_EQ(enlarged({.size = 256}).output_height(), 281);
  const auto crops = ten_crops(transform);
  const std::vector<std::vector<int64_t>> expected = {
      {0, 0, 15, 31},  // top left, top right, bottom left, bottom right, centre
      {0, 3, 15, 34}, {1, 0, 16, 31}, {1, 3, 16, 34}, {0, 2, 15, 33},
      {0, 34, 15, 3},  // of the mirror image
      {0, 31, 15, 0}, {1, 34, 16, 3}, {1, 31, 16, 0}, {0, 32, 15, 1}};
  ASSERT_EQ(crops.all.size(), expected.size());
  const auto images = places(17, 35);
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto cut = crops.cut(images, crops.all[i]);
    EXPECT_EQ(cut.sizes(), at::IntArrayRef({2, 3, 16, 32}));
    EXPECT_EQ(corners(cut), expected[i]) << crops.all[i].name;
  }
  const auto names = crops.names();
  EXPECT_EQ(names[0], "top left of 17x35");
  EXPECT_EQ(names[9], "center of 17x35, mirrored");
  EXPECT_EQ(central_variant(names), 4);
}

TEST(Variants, AnImageAndItsMirrorImage) {
  const auto both = with_mirror_image({.size = 4});
  ASSERT_EQ(both.all.size(), 2u);
  const auto images = places(4, 4);
  EXPECT_TRUE(at::equal(both.cut(images, both.all[0]), images));
  EXPECT_TRUE(at::equal(both.cut(images, both.all[1]), images.flip({3})));
  EXPECT_EQ(central_variant(both.names()), 0);
}

}  // namespace
}  // namespace nsvq
