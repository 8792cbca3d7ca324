#include "nsvq/ops/images/depth_to_space.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "nsvq/core/device.h"

namespace nsvq::depth_to_space_test {
namespace {

/// Channel c at (y, x) of the wide image, one number at a time.
torch::Tensor by_hand(const torch::Tensor& x) {
  const int64_t b = x.size(0), c = x.size(1) / 4, h = x.size(2), w = x.size(3);
  auto y = at::empty({b, c, 2 * h, 2 * w}, x.options());
  for (int64_t dy = 0; dy < 2; ++dy) {
    for (int64_t dx = 0; dx < 2; ++dx) {
      y.slice(2, dy, {}, 2)
          .slice(3, dx, {}, 2)
          .copy_(x.slice(1, (dy * 2 + dx) * c, (dy * 2 + dx + 1) * c));
    }
  }
  return y;
}

void expect_order_on(c10::Device device) {
  const std::vector<std::vector<int64_t>> shapes = {{2, 12, 1, 5},   {1, 4, 1, 1}, {3, 32, 3, 2},
                                                    {2, 64, 31, 33}, {0, 8, 2, 2}, {1, 4, 2, 0}};
  for (const auto& shape : shapes) {
    for (const auto type : {at::kFloat, at::kBFloat16, at::kLong}) {
      const auto x = at::randint(1000, shape, at::kLong).to(type);
      for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
        const auto y = depth_to_space(x.to(device).contiguous(format));
        EXPECT_TRUE(at::equal(y.to(at::kCPU), by_hand(x))) << x.sizes();
        EXPECT_TRUE(at::equal(space_to_depth(y).to(at::kCPU), x)) << x.sizes();
        if (format == at::MemoryFormat::ChannelsLast && x.numel() > 4) {
          EXPECT_TRUE(y.is_contiguous(format));
        }
      }
    }
  }
}

TEST(DepthToSpace, IsInDcrOrderOnTheCpu) { expect_order_on(at::kCPU); }

TEST(DepthToSpace, IsInDcrOrderOnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  expect_order_on(at::kCUDA);
}

TEST(DepthToSpace, GradientIsTheWayBack) {
  torch::manual_seed(0);
  const auto devices = gpu_count() == 0 ? std::vector<c10::Device>{at::kCPU}
                                        : std::vector<c10::Device>{at::kCPU, at::kCUDA};
  for (const auto device : devices) {
    const auto x = at::randn({2, 8, 3, 5}, device).requires_grad_();
    const auto weights = at::randn({2, 2, 6, 10}, device);
    (depth_to_space(x) * weights).sum().backward();
    EXPECT_TRUE(at::equal(x.grad(), space_to_depth(weights)));
  }
}

/// x's gradient, bias's gradient, output.
std::vector<torch::Tensor> with_bias(bool plain, const torch::Tensor& input,
                                     const torch::Tensor& of_channels,
                                     const torch::Tensor& gradient) {
  const auto x = input.detach().clone().requires_grad_();
  const auto bias = of_channels.detach().clone().requires_grad_();
  const auto added = [&] { return (x + bias.view({1, -1, 1, 1})).to(x.scalar_type()); };
  const auto y = plain ? depth_to_space(added()) : depth_to_space(x, bias);
  y.backward(gradient);
  return {x.grad(), bias.grad(), y.detach()};
}

void expect_bias_on(c10::Device device) {
  torch::manual_seed(1);
  const std::vector<std::vector<int64_t>> shapes = {
      {2, 256, 5, 7},   {1, 512, 3, 3}, {1, 1024, 1, 5},  {3, 2048, 4, 4},
      {1, 96, 3, 31},   {2, 12, 3, 5},  {1, 4, 1, 1},     {1, 8192, 2, 1},
      {2, 128, 33, 65}, {0, 256, 5, 5}, {1, 128, 130, 97}};
  for (const auto& shape : shapes) {
    for (const auto type : {at::kFloat, at::kBFloat16, at::kHalf, at::kDouble}) {
      const auto x = at::randn(shape, device).to(type).contiguous(at::MemoryFormat::ChannelsLast);
      const auto bias = at::randn({shape[1]}, device).to(type == at::kDouble ? type : at::kFloat);
      const auto gradient = depth_to_space(at::randn(shape, device).to(type));
      for (const auto& input : {x, x.contiguous()}) {
        const auto plain = with_bias(true, input, bias, gradient);
        const auto ours = with_bias(false, input, bias, gradient);
        EXPECT_TRUE(at::equal(ours[0], plain[0])) << x.sizes() << type;
        EXPECT_TRUE(at::allclose(ours[1], plain[1], 1e-4, 1e-3)) << x.sizes() << type;
        EXPECT_TRUE(at::equal(ours[2], plain[2])) << x.sizes() << type;
      }
    }
  }
}

TEST(DepthToSpace, AddsABiasOnTheCpu) { expect_bias_on(at::kCPU); }

TEST(DepthToSpace, AddsABiasOnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  expect_bias_on(at::kCUDA);
}

TEST(DepthToSpace, BiasMayAskForNoGradient) {
  const auto x = at::randn({2, 8, 3, 5}).requires_grad_(), bias = at::randn({8});
  const auto weights = at::randn({2, 2, 6, 10});
  (depth_to_space(x, bias) * weights).sum().backward();
  EXPECT_TRUE(at::equal(x.grad(), space_to_depth(weights)));
  EXPECT_FALSE(bias.grad().defined());
}

TEST(DepthToSpace, HasSecondDerivativesWithABias) {
  const auto x = at::randn({2, 8, 3, 5}).requires_grad_(), bias = at::randn({8}).requires_grad_();
  const auto y = depth_to_space(x, bias);
  const auto gradients = torch::autograd::grad({(y * y * y).sum()}, {x, bias}, {},
                                               /*retain_graph=*/true, /*create_graph=*/true);
  const auto second = torch::autograd::grad({gradients[0].sum() + gradients[1].sum()}, {bias})[0];
  const auto expected = 12 * (x + bias.view({1, 8, 1, 1})).sum({0, 2, 3});
  EXPECT_TRUE(at::allclose(second, expected, 1e-4, 1e-3));
}

TEST(DepthToSpace, RefusesWhatDoesNotDivide) {
  EXPECT_THROW(depth_to_space(at::zeros({1, 6, 2, 2})), c10::Error);
  EXPECT_THROW(depth_to_space(at::zeros({4, 2, 2})), c10::Error);
  EXPECT_THROW(space_to_depth(at::zeros({1, 6, 3, 2})), c10::Error);
  EXPECT_THROW(depth_to_space(at::zeros({1, 8, 2, 2}), at::zeros({2})), c10::Error);
}

}  // namespace
}  // namespace nsvq::depth_to_space_test
