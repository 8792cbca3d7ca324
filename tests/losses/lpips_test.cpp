#include "nsvq/losses/lpips.h"

#include <gtest/gtest.h>

#include "nsvq/core/error.h"
#include "tests/losses/random_lpips.h"

namespace nsvq {
namespace {

std::shared_ptr<Lpips> random_lpips(const std::string& net) {
  const auto lpips = std::make_shared<Lpips>(net);
  const auto& kind = feature_net_kind(net);
  lpips->load(random_weights(*kind.make()), random_weights(LpipsHeads(kind.channels)));
  return lpips;
}

std::string error_of(const std::function<void()>& call) {
  try {
    call();
    return "";
  } catch (const UserError& error) {
    return error.what();
  }
}

TEST(Lpips, DistancesAreOfImagesAndSymmetric) {
  for (const auto& name : lpips_net_names()) {
    const auto& kind = feature_net_kind(name);
    SCOPED_TRACE(kind.name);
    const auto lpips = random_lpips(kind.name);
    const auto a = draw("a", {3, 3, 33, 35}).to(at::kFloat);
    const auto b = draw("b", {3, 3, 33, 35}).to(at::kFloat);
    const auto all = lpips->forward(a, b);
    ASSERT_EQ(all.sizes(), (std::vector<int64_t>{3}));
    EXPECT_TRUE(at::allclose(all, lpips->forward(b, a), 1e-5));
    EXPECT_TRUE(
        at::allclose(all.slice(0, 1, 2), lpips->forward(a.slice(0, 1, 2), b.slice(0, 1, 2)), 1e-5));
    EXPECT_EQ(lpips->forward(a, a).abs().max().item<float>(), 0);
    EXPECT_GT(all.min().item<float>(), 0);
  }
}

TEST(Lpips, GradientsGoToWhatAsksForThem) {
  const auto lpips = random_lpips("squeeze");
  auto a = draw("a", {1, 3, 20, 21}).requires_grad_();
  auto b = draw("b", {1, 3, 20, 21});
  lpips->to(at::kDouble);
  lpips->forward(a, b).sum().backward();
  const auto gradient = a.grad().clone();
  EXPECT_GT(gradient.abs().max().item<double>(), 0);
  for (const auto& parameter : lpips->parameters()) EXPECT_FALSE(parameter.requires_grad());

  a = a.detach();
  b.requires_grad_();
  lpips->forward(b, a).sum().backward();
  const auto first = b.grad().clone();
  b.mutable_grad() = torch::Tensor();
  lpips->forward(a, b).sum().backward();
  EXPECT_TRUE(at::allclose(first, b.grad(), 1e-9));
  EXPECT_FALSE(lpips->forward(a, b.detach()).requires_grad());
}

TEST(Lpips, PositionsWithoutAnyActivationGiveNoGradient) {
  const auto lpips = std::make_shared<Lpips>("vgg");
  const auto& kind = feature_net_kind("vgg");
  auto weights = random_weights(*kind.make());
  weights["features.28.bias"].fill_(-1e6);  // No activation of the last depth is left.
  lpips->load(weights, random_weights(LpipsHeads(kind.channels)));
  auto a = draw("a", {1, 3, 16, 16}).to(at::kFloat).requires_grad_();
  lpips->forward(a, draw("b", {1, 3, 16, 16}).to(at::kFloat)).sum().backward();
  EXPECT_TRUE(a.grad().isfinite().all().item<bool>());
  EXPECT_GT(a.grad().abs().max().item<float>(), 0);
}

TEST(Lpips, SmallImagesAndWrongShapesAreRefused) {
  for (const auto& name : lpips_net_names()) {
    const auto& kind = feature_net_kind(name);
    const auto lpips = random_lpips(kind.name);
    const auto size = kind.least_size;
    EXPECT_NO_THROW(lpips->forward(at::zeros({1, 3, size, size}), at::zeros({1, 3, size, size})));
    const auto small = at::zeros({1, 3, size + 9, size - 1});
    const auto error = error_of([&] { lpips->forward(small, small); });
    EXPECT_NE(error.find("lpips-" + kind.name), std::string::npos) << error;
    EXPECT_NE(error.find(std::to_string(size)), std::string::npos) << error;
  }
  const auto lpips = random_lpips("vgg");
  EXPECT_THROW(lpips->forward(at::zeros({1, 3, 32, 32}), at::zeros({2, 3, 32, 32})), c10::Error);
  EXPECT_THROW(lpips->forward(at::zeros({1, 1, 32, 32}), at::zeros({1, 1, 32, 32})), c10::Error);
}

TEST(Lpips, WrongWeightsAreNamed) {
  Lpips lpips("alex");
  const auto& kind = feature_net_kind("alex");
  const auto net = random_weights(*kind.make());
  const auto heads = random_weights(LpipsHeads(kind.channels));
  auto wrong = net;
  wrong.erase("features.3.bias");
  EXPECT_NE(error_of([&] { lpips.load(wrong, heads); }).find("'features.3.bias' is missing"),
            std::string::npos);
  wrong = heads;
  wrong["lin2.weight"] = at::zeros({1, 256, 1, 1});
  EXPECT_EQ(error_of([&] { lpips.load(net, wrong); }),
            "weights lpips-alex: tensor 'lin2.weight' is [1, 256, 1, 1], not [1, 384, 1, 1]");
  wrong["lin2.weight"] = at::zeros({1, 384, 1, 1}, at::kLong);
  EXPECT_NE(error_of([&] { lpips.load(net, wrong); }).find("floating-point"), std::string::npos);
  EXPECT_NE(error_of([] { Lpips("vgg19"); }).find("vgg, alex, squeeze"), std::string::npos);
}

}  // namespace
}  // namespace nsvq
