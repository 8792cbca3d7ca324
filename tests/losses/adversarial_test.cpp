#include "nsvq/losses/adversarial.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "nsvq/core/error.h"
#include "nsvq/nn/discriminator.h"

namespace nsvq {
namespace {

const std::vector<std::string> kGeneratorKinds = {"non_saturating", "hinge"};
const std::vector<std::string> kDiscriminatorKinds = {"hinge", "vanilla"};

/// Logits [B, 1, 1, n] from B rows of n.
torch::Tensor logits(std::vector<float> values, int64_t images = 1) {
  return at::tensor(values).view({images, 1, 1, -1});
}

TEST(Adversarial, ValuesByHand) {
  // The mean comes before the softplus within an image, after it over images.
  const auto fake = logits({-2, 2, 1, 5}, 2);
  EXPECT_NEAR(generator_loss("non_saturating", fake).item<double>(),
              (std::log(2.0) + std::log1p(std::exp(-3.0))) / 2, 1e-6);
  EXPECT_FLOAT_EQ(generator_loss("hinge", fake).item<float>(), -1.5f);
  const auto real = logits({3, 0.5, -1, 1}, 2);
  EXPECT_FLOAT_EQ(discriminator_loss("hinge", real, logits({-3, 0, 1, -0.5}, 2)).item<float>(),
                  0.5f * (2.5f / 4 + 3.5f / 4));
  EXPECT_NEAR(discriminator_loss("vanilla", logits({0}), logits({0})).item<double>(), std::log(2.0),
              1e-6);
}

TEST(Adversarial, PullInTheirDirections) {
  for (const auto& kind : kGeneratorKinds) {
    SCOPED_TRACE(kind);
    EXPECT_LT(generator_loss(kind, logits({1})).item<double>(),
              generator_loss(kind, logits({-1})).item<double>());
  }
  for (const auto& kind : kDiscriminatorKinds) {
    SCOPED_TRACE(kind);
    EXPECT_LT(discriminator_loss(kind, logits({0.5}), logits({-0.5})).item<double>(),
              discriminator_loss(kind, logits({-0.5}), logits({0.5})).item<double>());
  }
}

TEST(Adversarial, UnknownKindsNameTheKeyAndTheChoices) {
  const auto expect_error = [](auto call, const std::vector<std::string>& parts) {
    try {
      call();
      FAIL() << "no error";
    } catch (const UserError& error) {
      for (const auto& part : parts)
        EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  };
  expect_error([] { generator_loss("hinje", logits({0})); },
               {"adversarial.generator_loss", "hinje", "did you mean", "non_saturating, hinge"});
  expect_error([] { discriminator_loss("non_saturating", logits({0}), logits({0})); },
               {"adversarial.discriminator_loss", "non_saturating", "hinge, vanilla"});
  EXPECT_THROW(generator_loss("non_saturating", at::zeros({4})), c10::Error);
}

TEST(Adversarial, NanLogitsGiveNan) {
  const auto good = logits({1, 2}), bad = logits({1, std::nanf("")});
  for (const auto& kind : kGeneratorKinds)
    EXPECT_TRUE(std::isnan(generator_loss(kind, bad).item<double>())) << kind;
  for (const auto& kind : kDiscriminatorKinds) {
    EXPECT_TRUE(std::isnan(discriminator_loss(kind, bad, good).item<double>())) << kind;
    EXPECT_TRUE(std::isnan(discriminator_loss(kind, good, bad).item<double>())) << kind;
  }
  EXPECT_TRUE(std::isnan(Lecam().penalty(bad, good).item<double>()));
  EXPECT_TRUE(std::isnan(Lecam().penalty(good, bad).item<double>()));
}

TEST(Adversarial, HugeLogitsDoNotOverflow) {
  const float huge = 1e30f;
  for (const float sign : {-1.0f, 1.0f}) {
    const auto fake = logits({sign * huge}).requires_grad_();
    const auto loss = generator_loss("non_saturating", fake);
    loss.backward();
    EXPECT_FLOAT_EQ(loss.item<float>(), sign < 0 ? huge : 0);
    EXPECT_FLOAT_EQ(fake.grad().item<float>(), sign < 0 ? -1 : 0);

    const auto real = logits({-sign * huge}).requires_grad_();
    const auto other = logits({sign * huge}).requires_grad_();
    const auto vanilla = discriminator_loss("vanilla", real, other);
    vanilla.backward();
    EXPECT_FLOAT_EQ(vanilla.item<float>(), sign > 0 ? huge : 0);
    EXPECT_FLOAT_EQ(real.grad().item<float>(), sign > 0 ? -0.5f : 0);
    EXPECT_FLOAT_EQ(other.grad().item<float>(), sign > 0 ? 0.5f : 0);
  }
}

TEST(Lecam, MovesItsBuffersTowardsTheMeans) {
  Lecam lecam;
  const auto buffers = lecam.named_buffers();
  ASSERT_EQ(buffers.size(), 2u);
  EXPECT_EQ(buffers["ema_real"].item<double>(), 0);
  lecam.update(logits({1, 3}), logits({-4}));
  EXPECT_NEAR(buffers["ema_real"].item<double>(), 0.002, 1e-15);
  EXPECT_NEAR(buffers["ema_fake"].item<double>(), -0.004, 1e-15);
  lecam.update(logits({1, 3}), logits({-4}));
  EXPECT_NEAR(buffers["ema_real"].item<double>(), 0.002 * 1.999, 1e-15);
  for (int i = 0; i < 10000; ++i) lecam.update(logits({1, 3}), logits({-4}));
  EXPECT_NEAR(buffers["ema_real"].item<double>(), 2, 1e-3);
  EXPECT_NEAR(buffers["ema_fake"].item<double>(), -4, 1e-3);
}

TEST(Lecam, PaysBeyondTheOtherMeanOnly) {
  Lecam lecam;
  const auto buffers = lecam.named_buffers();
  buffers["ema_real"].fill_(2);
  buffers["ema_fake"].fill_(-1);
  const auto real = logits({1, -3}).requires_grad_(), fake = logits({0, 5}).requires_grad_();
  const auto penalty = lecam.penalty(real, fake);
  EXPECT_FLOAT_EQ(penalty.item<float>(), 2.0f * 2 / 2 + 2.0f * 2 / 2);
  penalty.backward();
  EXPECT_TRUE(at::equal(real.grad().flatten(), at::tensor({2.0f, 0.0f})));
  EXPECT_TRUE(at::equal(fake.grad().flatten(), at::tensor({-2.0f, 0.0f})));
}

TEST(Lecam, KeepsItsMeansThroughAStepThatIsNotFinite) {
  Lecam lecam;
  lecam.update(logits({5}), logits({-5}));
  lecam.update(logits({std::nanf(""), 1}), logits({-std::numeric_limits<float>::infinity()}));
  EXPECT_NEAR(lecam.named_buffers()["ema_real"].item<double>(), 0.005, 1e-15);
  EXPECT_NEAR(lecam.named_buffers()["ema_fake"].item<double>(), -0.005, 1e-15);
}

TEST(Lecam, UpdateLeavesNoGraph) {
  Lecam lecam;
  const auto real = logits({5}).requires_grad_();
  lecam.update(real, real);
  EXPECT_FALSE(lecam.named_buffers()["ema_real"].requires_grad());
  EXPECT_TRUE(lecam.parameters().empty());
}

TEST(AdaptiveWeight, IsTheRatioOfTheNormsWithinBounds) {
  const auto last = at::tensor({3.0, 4.0}, at::kDouble).requires_grad_();
  const auto weight = [&](double reconstruction, double adversarial, double most = 1e4) {
    return adaptive_weight(reconstruction * last.norm(), adversarial * last.norm(), last,
                           {.most = most})
        .item<double>();
  };
  EXPECT_NEAR(weight(3, 2), 3 / 2.0001, 1e-12);
  EXPECT_NEAR(weight(3, -2), 3 / 2.0001, 1e-12);
  EXPECT_EQ(weight(0, 2), 0);
  EXPECT_EQ(weight(3, 2, 1), 1);
  EXPECT_EQ(weight(5, 0), 1e4);
  const auto bounded = adaptive_weight(last.norm(), last.norm() * 1e6, last, {.least = 0.25});
  EXPECT_EQ(bounded.item<double>(), 0.25);
  EXPECT_TRUE(std::isnan(weight(std::nan(""), 1)));
}

/// Logits sum_c w_c x_c^2: dm/dx = 2 w x / pixels, half its squared norm 2 w^2 x^2 / pixels^2.
TEST(R1, ValueAndGradientByHand) {
  torch::manual_seed(4);
  const auto images = at::rand({3, 3, 4, 5}, at::kDouble).requires_grad_();
  const auto weights = at::rand({1, 3, 1, 1}, at::kDouble).requires_grad_();
  const auto logits = (weights * images.square()).sum(1, /*keepdim=*/true);
  const auto squares = images.detach().square().sum({0, 2, 3}, /*keepdim=*/true) / (3 * 400.0);
  for (const auto& scale : {torch::Tensor(), at::full({}, 65536.0, at::kDouble)}) {
    const auto penalty = r1_penalty(images, logits, scale);
    EXPECT_NEAR(penalty.item<double>(), (2 * weights.square() * squares).sum().item<double>(),
                1e-12);
    const auto gradient = torch::autograd::grad({penalty}, {weights}, {}, true)[0];
    EXPECT_TRUE(at::allclose(gradient, 4 * weights * squares, 1e-9, 1e-12)) << gradient;
  }
  EXPECT_FALSE(images.grad().defined());
}

/// By differences of the logits and of the penalty, through the convolutions and batch norms.
TEST(R1, OfADiscriminatorIsThatOfDifferences) {
  torch::manual_seed(5);
  DiscriminatorConfig config;
  config.layers = 1;
  config.width = 4;
  Discriminator discriminator(config);
  discriminator->to(at::kDouble);
  const auto images = at::rand({2, 3, 6, 7}, at::kDouble);
  const double step = 1e-6;
  const auto penalty = [&] {
    const auto leaf = images.detach().clone().requires_grad_();
    return r1_penalty(leaf, discriminator->forward(leaf));
  };
  const auto logit_sum = [&](const torch::Tensor& at) {
    const torch::NoGradGuard no_grad;
    return discriminator->forward(at).mean({1, 2, 3}).sum().item<double>();
  };
  double squares = 0;
  for (int64_t i = 0; i < images.numel(); ++i) {
    auto more = images.clone(), less = images.clone();
    more.view(-1)[i] += step;
    less.view(-1)[i] -= step;
    squares += std::pow((logit_sum(more) - logit_sum(less)) / (2 * step), 2);
  }
  const double expected = squares / 2 / 2;  // half the mean over two images
  EXPECT_GT(expected, 0);
  EXPECT_NEAR(penalty().item<double>(), expected, 1e-6 * expected);

  penalty().backward();
  for (const auto& item : discriminator->named_parameters()) {
    auto& parameter = item.value();
    if (!parameter.grad().defined()) continue;
    const auto direction = at::randn_like(parameter);
    const auto moved = [&](double by) {
      const torch::NoGradGuard no_grad;
      parameter.add_(direction, by);
    };
    moved(step);
    const double high = penalty().item<double>();
    moved(-2 * step);
    const double low = penalty().item<double>();
    moved(step);
    const double found = (parameter.grad() * direction).sum().item<double>();
    EXPECT_NEAR(found, (high - low) / (2 * step), 1e-4 * std::abs(found) + 1e-8) << item.key();
  }
  EXPECT_GT(discriminator->named_parameters()["main.0.weight"].grad().norm().item<double>(), 0);
}

std::string refusal_of(const AdversarialConfig& config) {
  try {
    check_adversarial(config);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(Adversarial, SettingsThatContradictEachOtherAreRefused) {
  EXPECT_EQ(refusal_of({}), "");
  AdversarialConfig config;
  config.augment = {"flip", "shift", "flip"};
  EXPECT_EQ(refusal_of(config), "adversarial.augment names flip twice");
  config.augment = {"none", "flip"};
  EXPECT_NE(refusal_of(config).find("adversarial.augment names none"), std::string::npos);
  config.augment = {"flip", "colour", "shift", "cutout"};
  EXPECT_EQ(refusal_of(config), "");
  config.least_ratio = 2;
  config.most_ratio = 1;
  EXPECT_EQ(refusal_of(config), "adversarial.least_ratio is 2, above adversarial.most_ratio 1");
  config.least_ratio = 1;
  config.target_hinge = 0.5;
  EXPECT_EQ(refusal_of(config), "");
  config.discriminator_loss = "vanilla";
  EXPECT_NE(refusal_of(config).find("adversarial.target_hinge is 0.5"), std::string::npos);
}

/// Discriminator in training mode with images of odd sizes.
struct Game {
  Game() {
    torch::manual_seed(11);
    AdversarialConfig config;
    config.layers = 2;
    config.width = 4;
    discriminator = Discriminator(config);
    real = at::rand({2, 3, 17, 15});
    fake = at::rand({2, 3, 17, 15}).requires_grad_();
  }

  bool has_gradients() const {
    bool any = false;
    for (const auto& p : discriminator->parameters()) any |= p.grad().defined();
    return any;
  }

  Discriminator discriminator{nullptr};
  torch::Tensor real, fake;
};

TEST(Toggling, GeneratorsLossReachesTheImagesAlone) {
  for (const auto& kind : kGeneratorKinds) {
    SCOPED_TRACE(kind);
    Game game;
    for (const auto& p : game.discriminator->parameters()) p.set_requires_grad(false);
    const auto loss = generator_loss(kind, game.discriminator->forward(game.fake));
    // What counts is the time of the forward pass.
    for (const auto& p : game.discriminator->parameters()) p.set_requires_grad(true);
    loss.backward();
    ASSERT_TRUE(game.fake.grad().defined());
    EXPECT_GT(game.fake.grad().norm().item<double>(), 0);
    EXPECT_FALSE(game.has_gradients());

    // With the parameters' own gradients, the images' are the same.
    Game open;
    generator_loss(kind, open.discriminator->forward(open.fake)).backward();
    EXPECT_TRUE(at::allclose(open.fake.grad(), game.fake.grad(), 1e-5, 1e-9));
    EXPECT_TRUE(open.has_gradients());
  }
}

TEST(Toggling, DiscriminatorsLossReachesItsParametersAlone) {
  for (const auto& kind : kDiscriminatorKinds) {
    SCOPED_TRACE(kind);
    Game game;
    for (const auto& p : game.discriminator->parameters()) p.set_requires_grad(false);
    generator_loss("hinge", game.discriminator->forward(game.fake)).backward();
    const auto before = game.fake.grad().clone();
    for (const auto& p : game.discriminator->parameters()) p.set_requires_grad(true);

    const auto real = game.discriminator->forward(game.real);
    const auto fake = game.discriminator->forward(game.fake.detach());
    Lecam lecam;
    lecam.update(real, fake);
    (discriminator_loss(kind, real, fake) + 0.01 * lecam.penalty(real, fake)).backward();
    for (const auto& item : game.discriminator->named_parameters()) {
      ASSERT_TRUE(item.value().grad().defined()) << item.key();
      EXPECT_GT(item.value().grad().norm().item<double>(), 0) << item.key();
    }
    EXPECT_TRUE(at::equal(game.fake.grad(), before));
  }
}

}  // namespace
}  // namespace nsvq
