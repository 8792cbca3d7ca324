#include "nsvq/losses/loss.h"

#include <gtest/gtest.h>

#include "nsvq/core/temporary_folder.h"
#include "nsvq/losses/lpips.h"
#include "nsvq/nn/features/resnet50.h"
#include "nsvq/nn/weights.h"
#include "nsvq/settings/option_table.h"
#include "tests/environment.h"
#include "tests/error_of.h"
#include "tests/losses/first_weights.h"
#include "tests/losses/random_lpips.h"

namespace nsvq {
namespace {

/// Settings loss.* given as "key=value".
LossConfig with_losses(const std::vector<std::string>& settings) {
  LossConfig config;
  OptionTable table;
  table.rows = loss_options(config);
  table.load("", settings);
  return config;
}

TEST(Losses, EveryMemberIsZeroOnEqualImagesAndPullsTowardsThem) {
  const TemporaryFolder folder;
  const Environment store("NSVQ_WEIGHTS", folder.path());
  const auto config = with_losses({"loss.perceptual_net=squeeze"});
  const auto& net = feature_net_kind("squeeze");
  save_weights("squeezenet1_1", {random_weights(*net.make()), "test", true});
  save_weights("lpips-squeeze", {random_weights(LpipsHeads(net.channels)), "test", true});
  save_weights("resnet50", {first_weights(ResNet50()), "test", true});
  save_weights("resnet50-fc", {first_weights(ResNet50Head()), "test", true});

  torch::manual_seed(0);
  const auto pair = at::rand({2, 3, 19, 17}) * 2 - 1;
  for (const auto& kind : loss_kinds()) {
    SCOPED_TRACE(kind.name);
    const bool costly = kind.name == "logits";
    const auto images = costly ? pair.slice(0, 0, 1) : pair;
    const auto loss = kind.make(config, 64, at::kCPU);
    EXPECT_EQ((*loss)(images, images).item<double>(), 0);
    const auto other = (images + at::randn_like(images) * 0.1).requires_grad_();
    const auto value = (*loss)(other, images);
    value.backward();
    EXPECT_GT(value.item<double>(), 0);
    EXPECT_LT((*loss)((other - 0.01 * other.grad() / other.grad().abs().max()).detach(), images)
                  .item<double>(),
              value.item<double>());
  }
}

TEST(Losses, ValuesByHand) {
  const auto images = at::zeros({1, 3, 1, 2});
  const auto other = at::tensor({1.0f, -1.0f, 2.0f, 0.0f, 0.0f, 0.0f}).view({1, 3, 1, 2});
  const auto losses = make_losses(with_losses({"loss.l2=2", "loss.chroma=3"}), 64, at::kCPU);
  ASSERT_EQ(losses.size(), 3u);
  EXPECT_FLOAT_EQ((*losses[0].loss)(other, images).item<float>(), 4.0f / 6);
  EXPECT_FLOAT_EQ((*losses[1].loss)(other, images).item<float>(), 1.0f);
  EXPECT_EQ(losses[1].weight, 2);
  // The pixels are (1, 2, 0) and (-1, 0, 0): red - blue is 1 and -1, green - (red + blue) / 2 is
  // 1.5 and 0.5.
  EXPECT_FLOAT_EQ((*losses[2].loss)(other, images).item<float>(), 0.5f + 1.2f);
}

TEST(Losses, ChromaDoesNotSeeBrightness) {
  torch::manual_seed(0);
  const auto images = at::rand({2, 3, 5, 4}) * 2 - 1;
  const auto loss =
      std::move(make_losses(with_losses({"loss.l1=0", "loss.chroma=1"}), 64, at::kCPU).at(0).loss);
  EXPECT_LT((*loss)(images + at::rand({2, 1, 5, 4}), images).item<double>(), 1e-6);
  EXPECT_GT((*loss)(images + at::rand({2, 3, 5, 4}), images).item<double>(), 1e-3);
}

TEST(Losses, PerceptualWithoutWeightsNamesTheCommand) {
  const TemporaryFolder folder;
  const Environment store("NSVQ_WEIGHTS", folder.path());
  const auto message =
      error_of([&] { make_losses(with_losses({"loss.perceptual=1"}), 64, at::kCPU); });
  EXPECT_NE(message.find("`nsvq weights get lpips-vgg`"), std::string::npos) << message;
}

TEST(Losses, ImagesTooSmallForTheNetworkAreRefused) {
  const auto config = with_losses({"loss.perceptual=1", "loss.perceptual_net=alex"});
  const auto message = error_of([&] { make_losses(config, /*size=*/30, at::kCPU); });
  for (const auto* word : {"loss.perceptual", "alex", "31", "data.size is 30"}) {
    EXPECT_NE(message.find(word), std::string::npos) << message;
  }
}

TEST(Losses, WeightZeroLeavesATermOut) {
  EXPECT_EQ(make_losses(with_losses({"loss.l1=0", "loss.l2=1"}), 64, at::kCPU).at(0).name, "l2");
}

}  // namespace
}  // namespace nsvq
