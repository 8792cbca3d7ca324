#include "nsvq/ops/images/image_patches.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "nsvq/core/device.h"

namespace nsvq::image_patches_test {
namespace {

using torch::Tensor;

void expect_equal_on(c10::Device device) {
  torch::manual_seed(0);
  const torch::NoGradGuard no_grad;
  for (const auto& sizes : std::vector<std::vector<int64_t>>{
           {2, 3, 5, 7}, {1, 1, 33, 31}, {3, 2, 1, 1}, {1, 3, 1, 65}, {0, 3, 4, 4}}) {
    for (const auto from : {at::kFloat, at::kBFloat16, at::kHalf}) {
      for (const auto to : {at::kFloat, at::kBFloat16, at::kHalf}) {
        const auto images = at::randn(sizes).to(device, from);
        for (const auto& same : {images, images.contiguous(at::MemoryFormat::ChannelsLast),
                                 images.transpose(2, 3).contiguous().transpose(2, 3)}) {
          const auto rows = image_patches(same, to);
          EXPECT_EQ(rows.scalar_type(), to);
          EXPECT_TRUE(at::equal(rows, image_patches_reference(same, to))) << images.sizes();
        }
      }
    }
  }
}

/// The product of patches and weights is the convolution.
void expect_convolution_on(c10::Device device) {
  torch::manual_seed(0);
  const torch::NoGradGuard no_grad;
  const auto images = at::randn({2, 3, 9, 11}).to(device),
             weight = at::randn({16, 3, 3, 3}).to(device);
  const auto rows = image_patches(images, at::kFloat).to(at::kDouble);
  const auto product =
      rows.matmul(at::constant_pad_nd(weight.flatten(1), {0, 5}).t().to(at::kDouble));
  const auto expected =
      at::conv2d(images.to(at::kDouble), weight.to(at::kDouble), std::optional<Tensor>(), 1, 1);
  EXPECT_TRUE(at::allclose(product.view({2, 9, 11, 16}).permute({0, 3, 1, 2}), expected));
}

TEST(ImagePatches, OnTheCpu) {
  expect_equal_on(at::kCPU);
  expect_convolution_on(at::kCPU);
}

TEST(ImagePatches, OnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  expect_equal_on(at::kCUDA);
  expect_convolution_on(at::kCUDA);
}

TEST(ImagePatches, RefusesWhatDoesNotFit) {
  const torch::NoGradGuard no_grad;
  EXPECT_THROW(image_patches(at::zeros({1, 4, 3, 5}), at::kFloat), c10::Error);
  EXPECT_THROW(image_patches(at::zeros({3, 3, 5}), at::kFloat), c10::Error);
  EXPECT_THROW(image_patches(at::zeros({1, 3, 3, 5}), at::kDouble), c10::Error);
  EXPECT_THROW(image_patches(at::zeros({1, 3, 3, 5}).to(at::kDouble), at::kFloat), c10::Error);
  const at::AutoGradMode gradients(true);
  EXPECT_THROW(image_patches(at::zeros({1, 3, 3, 5}), at::kFloat), c10::Error);
}

}  // namespace
}  // namespace nsvq::image_patches_test
