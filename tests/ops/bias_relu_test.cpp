#include "nsvq/ops/images/bias_relu.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>

#include "nsvq/core/device.h"

namespace nsvq::bias_relu_test {
namespace {

using torch::Tensor;

struct Case {
  Tensor x, bias, gradient;  ///< fp32, on the CPU
};

Case draw(const std::vector<int64_t>& sizes) {
  const auto normal = [&] { return at::randn(sizes).contiguous(at::MemoryFormat::ChannelsLast); };
  return {normal(), at::randn({sizes[1]}), normal()};
}

struct Results {
  Tensor output, x, bias;  ///< gradients of x and bias
};

/// The results for x in a type; x * 1 stands for a convolution's output.
template <typename Operator>
Results run(Operator op, const Case& one, at::ScalarType type, c10::Device device) {
  const auto x = one.x.detach().to(device, type).requires_grad_();
  const auto bias = one.bias.detach().to(device).requires_grad_();
  const auto output = op(x * 1, bias);
  EXPECT_EQ(output.scalar_type(), type);
  output.backward(one.gradient.to(device, type));
  return {output.detach(), x.grad(), bias.grad()};
}

void expect_plain_results_on(c10::Device device) {
  torch::manual_seed(0);
  const std::vector<std::vector<int64_t>> shapes = {
      {2, 64, 31, 33}, {1, 128, 17, 16}, {1, 256, 7, 5}, {3, 512, 3, 8},
      {1, 192, 13, 1}, {2, 24, 9, 11},   {1, 7, 33, 31}, {1, 1, 1, 1},
      {1, 4096, 3, 3}, {0, 64, 5, 5},    {2, 64, 5, 0},  {1, 64, 201, 203}};
  for (const auto& shape : shapes) {
    const auto one = draw(shape);
    for (const auto type : {at::kFloat, at::kBFloat16, at::kHalf}) {
      const auto plain = run(bias_relu_reference, one, type, device);
      const auto ours = run(bias_relu, one, type, device);
      EXPECT_TRUE(at::equal(ours.output, plain.output)) << one.x.sizes() << type;
      EXPECT_TRUE(at::equal(ours.x, plain.x)) << one.x.sizes() << type;
      // In lower precision the plain gradient is a sum of the same numbers in the same fp32.
      EXPECT_TRUE(at::allclose(ours.bias, plain.bias, 1e-4, 1e-3)) << one.x.sizes() << type;
    }
  }
}

void expect_nan_and_infinity_on(c10::Device device) {
  auto x = at::zeros({1, 8, 2, 2}, device).contiguous(at::MemoryFormat::ChannelsLast);
  x[0][3][1][0] = NAN;
  x[0][4][0][1] = INFINITY;
  x[0][5][0][1] = -INFINITY;
  const auto bias = at::zeros({8}, device);
  const auto expected = at::relu(x);
  EXPECT_TRUE(at::allclose(bias_relu(x, bias), expected, 0, 0, /*equal_nan=*/true));
}

TEST(BiasRelu, OnTheCpu) {
  expect_plain_results_on(at::kCPU);
  expect_nan_and_infinity_on(at::kCPU);
}

TEST(BiasRelu, OnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  expect_plain_results_on(at::kCUDA);
  expect_nan_and_infinity_on(at::kCUDA);
}

TEST(BiasRelu, WritesOverItsInput) {
  const auto one = draw({2, 8, 3, 5});
  const auto expected = bias_relu_reference(one.x, one.bias);
  const auto output = bias_relu(one.x, one.bias);
  EXPECT_EQ(output.const_data_ptr(), one.x.const_data_ptr());
  EXPECT_TRUE(at::equal(one.x, expected));
}

TEST(BiasRelu, LeavesAloneWhatItMayNotWriteOver) {
  const auto one = draw({2, 8, 3, 5});
  const auto expected = bias_relu_reference(one.x, one.bias);
  for (const auto& x : {one.x.clone().requires_grad_(), one.x.contiguous(), one.x.slice(3, 0, 4),
                        one.x.to(at::kDouble)}) {
    const auto before = x.detach().clone();
    const auto output = bias_relu(x, one.bias);
    EXPECT_TRUE(at::equal(x.detach(), before));
    EXPECT_TRUE(at::allclose(output.to(at::kFloat), expected.slice(3, 0, x.size(3))));
  }
}

// Autograd notices when a number that a gradient needs has been written over.
TEST(BiasRelu, IsSeenToWrite) {
  const auto one = draw({2, 8, 3, 5});
  const auto leaf = one.x.clone().requires_grad_();
  const auto doubled = leaf * 2, squared = doubled * doubled;
  const auto output = bias_relu(doubled, one.bias);
  EXPECT_THROW((squared.sum() + output.sum()).backward(), c10::Error);
}

TEST(BiasRelu, RefusesOtherShapes) {
  const auto x = at::randn({2, 8, 3, 5});
  EXPECT_THROW(bias_relu(x, at::ones({7})), c10::Error);
  EXPECT_THROW(bias_relu(x, at::ones({8, 1})), c10::Error);
  EXPECT_THROW(bias_relu(x[0], at::ones({8})), c10::Error);
}

}  // namespace
}  // namespace nsvq::bias_relu_test
