#include "nsvq/data/sources/dead_leaves.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

namespace nsvq {
namespace {

/// Brightness, [size, size] fp64.
torch::Tensor grey(const Image& image) {
  auto pixels = torch::from_blob(const_cast<uint8_t*>(image.pixels.data()),
                                 {image.height, image.width, 3}, torch::kUInt8);
  return pixels.to(torch::kFloat64).mean(-1);
}

/// Mean power at each whole frequency from 0 to size / 2.
std::vector<double> radial_power(const torch::Tensor& power) {
  const int64_t size = power.size(0);
  std::vector<double> sums(size / 2 + 1), counts(size / 2 + 1);
  const auto at = power.accessor<double, 2>();
  for (int64_t y = 0; y < size; ++y) {
    for (int64_t x = 0; x < size; ++x) {
      const auto fy = static_cast<double>(std::min(y, size - y));
      const auto fx = static_cast<double>(std::min(x, size - x));
      const auto f = static_cast<size_t>(std::lround(std::sqrt(fx * fx + fy * fy)));
      if (f >= sums.size()) continue;
      sums[f] += at[y][x];
      counts[f] += 1;
    }
  }
  for (size_t f = 0; f < sums.size(); ++f) sums[f] /= counts[f];
  return sums;
}

/// Slope of the least-squares line through (log f, log power), f from 2 on.
double log_slope(const std::vector<double>& power) {
  double n = 0, sx = 0, sy = 0, sxx = 0, sxy = 0;
  for (size_t f = 2; f < power.size(); ++f) {
    const double x = std::log(static_cast<double>(f)), y = std::log(power[f]);
    n += 1, sx += x, sy += y, sxx += x * x, sxy += x * y;
  }
  return (n * sxy - sx * sy) / (n * sxx - sx * sx);
}

// Photographs shrunk to 64 pixels have -2.9 by this measure.
TEST(DeadLeaves, SpectrumFallsAsInPhotographs) {
  torch::Tensor power = torch::zeros({64, 64}, torch::kFloat64);
  for (int64_t i = 0; i < 100; ++i) {
    const torch::Tensor picture = grey(dead_leaves(0, i, 64));
    power += torch::fft_fft2(picture - picture.mean()).abs().square();
  }
  const double slope = log_slope(radial_power(power));
  EXPECT_LT(slope, -1.5);
  EXPECT_GT(slope, -3.0);
}

TEST(DeadLeaves, IsAFunctionOfSeedIndexAndSize) {
  const Image image = dead_leaves(1, 2, 33);
  EXPECT_EQ(image.width, 33);
  EXPECT_EQ(image.height, 33);
  EXPECT_EQ(image.pixels.size(), 33U * 33 * 3);
  EXPECT_EQ(image.pixels, dead_leaves(1, 2, 33).pixels);
  EXPECT_NE(image.pixels, dead_leaves(1, 3, 33).pixels);
  EXPECT_NE(image.pixels, dead_leaves(2, 2, 33).pixels);
}

TEST(DeadLeaves, EverySizeWorks) {
  for (const int size : {8, 9, 31, 63, 65, 257}) {
    const Image image = dead_leaves(0, 0, size);
    const auto [low, high] = std::minmax_element(image.pixels.begin(), image.pixels.end());
    EXPECT_GT(*high - *low, 50) << size;
  }
}

// Means of the channels, by which a change of the pictures shows. The tolerance is for compilers
// that contract a*b+c.
TEST(DeadLeaves, PicturesArePinned) {
  struct Case {
    uint64_t seed;
    int64_t index;
    int size;
    std::array<double, 3> means;
  };
  for (const Case& want :
       {Case{0, 0, 64, {178.45, 192.64, 199.77}}, Case{0, 1, 64, {65.49, 64.73, 79.68}},
        Case{1, 255, 64, {188.52, 150.31, 160.72}}, Case{3, 7, 31, {112.45, 105.38, 80.80}},
        Case{0, 5, 128, {202.25, 192.30, 164.97}}}) {
    const Image image = dead_leaves(want.seed, want.index, want.size);
    std::array<double, 3> sums{};
    for (size_t i = 0; i < image.pixels.size(); ++i) sums[i % 3] += image.pixels[i];
    for (int c = 0; c < 3; ++c) {
      EXPECT_NEAR(sums[c] / want.size / want.size, want.means[c], 0.05) << want.index << " " << c;
    }
  }
}

}  // namespace
}  // namespace nsvq
