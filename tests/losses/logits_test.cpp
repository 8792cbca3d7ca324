// The loss of ResNet-50's logits against plain PyTorch.

#include <gtest/gtest.h>

#include "nsvq/core/temporary_folder.h"
#include "nsvq/losses/loss.h"
#include "nsvq/nn/features/resized.h"
#include "nsvq/nn/features/resnet50.h"
#include "nsvq/nn/weights.h"
#include "tests/environment.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/losses/first_weights.h"

namespace nsvq {
namespace {

LossConfig with_logits() {
  LossConfig config;
  config.of<LogitsLossConfig>().weight = 0.1;
  return config;
}

TEST(Resized, EqualsPyTorchsAntialiasedBilinear) {
  torch::manual_seed(1);
  for (const auto& [height, width] : {std::pair{19, 17}, {40, 24}, {24, 61}, {1, 5}, {128, 100}}) {
    SCOPED_TRACE(fmt::format("{} x {}", height, width));
    const auto images = at::rand({2, 3, height, width}, at::kDouble).requires_grad_();
    const auto same = images.detach().clone().requires_grad_();
    const auto ours = resized(images, 24);
    const auto theirs = at::_upsample_bilinear2d_aa(same, {24, 24}, /*align_corners=*/false);
    ASSERT_EQ(ours.sizes(), theirs.sizes());
    EXPECT_TRUE(at::allclose(ours, theirs, 1e-10, 1e-12));
    const auto weight = at::randn_like(ours);
    (ours * weight).sum().backward();
    (theirs * weight).sum().backward();
    EXPECT_TRUE(at::allclose(images.grad(), same.grad(), 1e-10, 1e-12));
  }
  const auto images = at::rand({1, 3, 24, 24});
  EXPECT_TRUE(at::equal(resized(images, 24), images)) << "its own size";
}

/// MaskBit: images in [0, 1] resized to 224 pixels, ImageNet's mean and deviation, squared
/// differences of the logits.
TEST(LogitsLoss, IsTheMeanSquaredDifferenceOfLogits) {
  const TemporaryFolder folder;
  const Environment store("NSVQ_WEIGHTS", folder.path());
  torch::manual_seed(3);
  ResNet50 net;
  ResNet50Head head;
  save_weights("resnet50", {first_weights(net), "test", true});
  save_weights("resnet50-fc", {first_weights(head), "test", true});

  const auto images = at::rand({1, 3, 33, 21}) * 2 - 1;
  const auto other = (images + at::randn_like(images) * 0.2).requires_grad_();
  const auto same = other.detach().clone().requires_grad_();
  const auto loss = std::move(make_losses(with_logits(), 64, at::kCPU).back());
  EXPECT_EQ(loss.name, "logits");
  EXPECT_EQ(loss.weight, 0.1);
  const auto value = (*loss.loss)(other, images);
  value.backward();

  const auto logits = [&](const torch::Tensor& given) {
    const auto large = at::_upsample_bilinear2d_aa((given + 1) / 2, {224, 224}, false);
    const auto mean = at::tensor({0.485, 0.456, 0.406}, at::kFloat).view({1, 3, 1, 1});
    const auto deviation = at::tensor({0.229, 0.224, 0.225}, at::kFloat).view({1, 3, 1, 1});
    const auto pooled = net.features((large - mean) / deviation).back().mean({2, 3});
    const auto parameters = head.named_parameters();
    return at::linear(pooled, parameters["fc.weight"], parameters["fc.bias"]);
  };
  const auto expected = at::mse_loss(logits(same), logits(images));
  expected.backward();
  EXPECT_EQ(logits(images).sizes(), (torch::IntArrayRef{1, 1000}));
  EXPECT_TRUE(at::allclose(value, expected, 1e-3, 0)) << value << expected;
  const auto apart = (other.grad() - same.grad()).norm() / same.grad().norm();
  EXPECT_LT(apart.item<double>(), 1e-2);
}

TEST(LogitsLoss, MissingWeightsAreNamedWithTheirCommands) {
  const TemporaryFolder folder;
  const Environment store("NSVQ_WEIGHTS", folder.path());
  const auto refusal = [] { return error_of([] { check_losses(with_logits(), 64); }); };
  expect_contains(refusal(), {"no weights resnet50 in ", "--as resnet50`"});
  EXPECT_EQ(error_of([] { make_losses(with_logits(), 64, at::kCPU); }), refusal());
  save_weights("resnet50", {first_weights(ResNet50()), "test", true});
  expect_contains(refusal(), {"no weights resnet50-fc in ", "--as resnet50-fc`"});
  save_weights("resnet50-fc", {first_weights(ResNet50Head()), "test", true});
  check_losses(with_logits(), 64);
}

}  // namespace
}  // namespace nsvq
