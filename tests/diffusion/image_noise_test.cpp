#include "nsvq/diffusion/latent_sampler.h"

#include <gtest/gtest.h>

#include "nsvq/core/device.h"

namespace nsvq {
namespace {

const std::vector<int64_t> kShape = {4, 3, 5};

torch::Tensor noise_of(int64_t seed, const std::vector<int64_t>& indices, int64_t draw = 0) {
  return ImageNoise(seed, indices, kShape, at::kCPU).draw(draw);
}

TEST(ImageNoise, OfAnImageIsTheSameInEveryBatch) {
  const auto all = noise_of(7, {0, 1, 2, 3, 4, 5});
  ASSERT_EQ(all.sizes(), (std::vector<int64_t>{6, 4, 3, 5}));
  EXPECT_TRUE(at::equal(noise_of(7, {3}), all.slice(0, 3, 4)));
  EXPECT_TRUE(at::equal(noise_of(7, {5, 1}), all.index_select(0, at::tensor({5, 1}, at::kLong))));
  EXPECT_EQ(noise_of(7, {}).size(0), 0);
}

TEST(ImageNoise, DiffersByImageSeedAndDraw) {
  const auto one = noise_of(7, {3});
  for (const auto& other : {noise_of(7, {4}), noise_of(8, {3}), noise_of(7, {3}, 1)}) {
    EXPECT_EQ(other.eq(one).sum().item<int64_t>(), 0);
  }
}

TEST(ImageNoise, IsStandardNormalOverImages) {
  std::vector<int64_t> indices(2000);
  for (size_t i = 0; i < indices.size(); ++i) indices[i] = static_cast<int64_t>(i);
  const auto noise = noise_of(1, indices);
  EXPECT_NEAR(noise.mean().item<double>(), 0, 0.012);
  EXPECT_NEAR(noise.std().item<double>(), 1, 0.01);
  const auto neighbours = noise.slice(0, 1) * noise.slice(0, 0, 1999);
  EXPECT_NEAR(neighbours.mean().item<double>(), 0, 0.012);
}

TEST(ImageNoise, IsThatOfTheCpuOnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  const std::vector<int64_t> indices = {0, 5, 1000000};
  const auto here = ImageNoise(9, indices, {4, 3, 5}, c10::Device(at::kCUDA, 0)).draw(2).cpu();
  EXPECT_TRUE(at::allclose(here, ImageNoise(9, indices, {4, 3, 5}, at::kCPU).draw(2), 1e-5, 1e-5));
}

}  // namespace
}  // namespace nsvq
