#include "nsvq/ops/images/feature_distance.h"

#include <gtest/gtest.h>

#include "nsvq/core/device.h"

namespace nsvq::feature_distance_test {
namespace {

struct Drawn {
  torch::Tensor ours, theirs, weights;
};

/// Activations as after a ReLU: many zeros, and positions that are all zero.
Drawn draw(std::vector<int64_t> shape, c10::Device device, at::ScalarType type) {
  torch::manual_seed(2);
  const auto image = [&] {
    auto x = at::relu(at::randn(shape));
    if (x.numel() > 0) x.select(3, 0).select(2, 0).zero_();
    return x.to(device, type).contiguous(at::MemoryFormat::ChannelsLast);
  };
  return {image(), image(), at::rand({shape[1]}).to(device)};
}

double relative(const torch::Tensor& a, const torch::Tensor& b) {
  const auto wide = b.to(at::kCPU, at::kDouble);
  return ((a.to(at::kCPU, at::kDouble) - wide).norm() / (wide.norm() + 1e-30)).item<double>();
}

/// Compares value and gradient with the plain version in fp64 on equal values.
void expect_distances_on(c10::Device device) {
  const std::vector<std::vector<int64_t>> shapes = {{2, 64, 9, 7},  {1, 1, 1, 1},   {3, 33, 5, 1},
                                                    {2, 512, 4, 4}, {2, 600, 3, 3}, {0, 8, 2, 2}};
  for (const auto& shape : shapes) {
    for (const auto type : {at::kFloat, at::kBFloat16, at::kHalf}) {
      const auto [ours, theirs, weights] = draw(shape, device, type);
      const auto leaf = ours.detach().clone().requires_grad_();
      const auto exact_leaf = ours.to(at::kDouble).detach().requires_grad_();
      const auto distance = feature_distance(leaf, theirs, weights);
      const auto exact =
          feature_distance_reference(exact_leaf, theirs.to(at::kDouble), weights.to(at::kDouble));
      EXPECT_EQ(distance.scalar_type(), at::kFloat);
      EXPECT_LT(relative(distance, exact), 1e-5) << ours.sizes() << type;
      const auto pull = at::rand({shape[0]}).to(device);
      (distance * pull).sum().backward();
      (exact * pull).sum().backward();
      const double rounding = type == at::kFloat ? 1e-5 : type == at::kHalf ? 1e-3 : 8e-3;
      EXPECT_LT(relative(leaf.grad(), exact_leaf.grad()), rounding) << ours.sizes() << type;
    }
  }
}

TEST(FeatureDistance, EqualsFp64OnTheCpu) { expect_distances_on(at::kCPU); }

TEST(FeatureDistance, EqualsFp64OnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  expect_distances_on(at::kCUDA);
}

TEST(FeatureDistance, OfEqualActivationsIsZero) {
  const auto drawn = draw({2, 16, 3, 3}, at::kCPU, at::kFloat);
  const auto distance = feature_distance(drawn.ours, drawn.ours, drawn.weights);
  EXPECT_TRUE(at::equal(distance, at::zeros({2})));
}

TEST(FeatureDistance, RefusesOtherShapes) {
  const auto x = at::zeros({1, 4, 2, 2});
  EXPECT_THROW(feature_distance(x, at::zeros({1, 4, 2, 3}), at::zeros({4})), c10::Error);
  EXPECT_THROW(feature_distance(x, x, at::zeros({5})), c10::Error);
}

}  // namespace
}  // namespace nsvq::feature_distance_test
