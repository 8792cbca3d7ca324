#include "nsvq/ops/images/residual_sum.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <array>

#include "nsvq/core/device.h"

namespace nsvq::residual_sum_test {
namespace {

using torch::Tensor;

struct Size {
  int64_t images, channels, height, width;
};

Tensor images(const Size& size, at::ScalarType type, c10::Device device) {
  return at::randn({size.images, size.channels, size.height, size.width})
      .to(device, type)
      .contiguous(at::MemoryFormat::ChannelsLast);
}

constexpr std::array kForms = {SumForm::plain, SumForm::padded_after, SumForm::doubled};

/// Expects the plain version's result bit for bit; on a GPU channels-last.
void expect_equal(const Tensor& x, const Tensor& h, const Tensor& offset, SumForm form) {
  const auto expected = residual_sum_reference(x, h, offset, form);
  const auto sum = residual_sum(x, h, offset, form);
  ASSERT_EQ(sum.sizes(), expected.sizes());
  EXPECT_TRUE(!x.is_cuda() || sum.numel() == 0 ||
              sum.is_contiguous(at::MemoryFormat::ChannelsLast));
  EXPECT_FALSE(sum.is_same(x));
  EXPECT_TRUE(at::equal(sum, expected))
      << x.sizes() << " " << x.scalar_type() << " h " << h.defined() << " offset "
      << offset.defined() << " form " << static_cast<int>(form);
}

void expect_equal_on(c10::Device device) {
  torch::manual_seed(0);
  const torch::NoGradGuard no_grad;
  for (const auto& size : {Size{2, 64, 5, 7},
                           {1, 8, 33, 31},
                           {3, 5, 4, 6},
                           {2, 12, 1, 1},
                           {1, 128, 40, 3},
                           {0, 8, 4, 4}}) {
    for (const auto type : {at::kFloat, at::kBFloat16, at::kHalf}) {
      const auto x = images(size, type, device), h = images(size, type, device);
      const auto offset = at::randn({size.channels}).to(device);
      for (const auto form : kForms) {
        expect_equal(x, h, offset, form);
        expect_equal(x, {}, offset, form);
        expect_equal(x, h, {}, form);
        expect_equal(x, {}, {}, form);
        expect_equal(x, h, offset.to(type), form);
      }
    }
  }
}

TEST(ResidualSum, OnTheCpu) { expect_equal_on(at::kCPU); }

TEST(ResidualSum, OnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  expect_equal_on(at::kCUDA);
}

TEST(ResidualSum, OfOtherMemoryOnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  const torch::NoGradGuard no_grad;
  const auto x = at::randn({2, 16, 6, 5}).to(at::kCUDA);
  const auto sum =
      residual_sum(x, x.transpose(0, 1).contiguous().transpose(0, 1), {}, SumForm::plain);
  EXPECT_TRUE(at::equal(sum, x + x));
  const auto all =
      at::randn({1, 24, 6, 5}).to(at::kCUDA).contiguous(at::MemoryFormat::ChannelsLast);
  const auto part = all.narrow(1, 4, 16);  // not 16 bytes from the start of a pixel to the next
  EXPECT_TRUE(at::equal(residual_sum(part, {}, {}, SumForm::doubled),
                        residual_sum_reference(part, {}, {}, SumForm::doubled)));
}

TEST(ResidualSum, RefusesWhatDoesNotFit) {
  const torch::NoGradGuard no_grad;
  const auto x = images({2, 8, 3, 5}, at::kFloat, at::kCPU);
  EXPECT_THROW(residual_sum(x, at::zeros({2, 8, 3, 4}), {}, SumForm::plain), c10::Error);
  EXPECT_THROW(residual_sum(x, x.to(at::kHalf), {}, SumForm::plain), c10::Error);
  EXPECT_THROW(residual_sum(x, {}, at::zeros({7}), SumForm::plain), c10::Error);
  EXPECT_THROW(residual_sum(x.to(at::kDouble), {}, {}, SumForm::plain), c10::Error);
  const at::AutoGradMode gradients(true);
  EXPECT_THROW(residual_sum(x, x, {}, SumForm::plain), c10::Error);
}

}  // namespace
}  // namespace nsvq::residual_sum_test
