#include "nsvq/train/vq/adversary.h"

#include <gtest/gtest.h>

#include "nsvq/core/error.h"
#include "nsvq/core/tensor_map.h"
#include "tests/train/tiny.h"

namespace nsvq {
namespace {

TokenizerConfig config(bool adaptive = false) {
  auto config = tiny_config();
  config.adversarial.weight = 0.5;
  config.adversarial.adaptive = adaptive;
  config.adversarial.lecam = 0.1;
  config.adversarial.width = 4;
  config.adversarial.layers = 1;
  return config;
}

torch::Tensor share(double value) { return at::full({}, value); }

class AdversaryTest : public testing::Test {
 protected:
  AdversaryTest() { torch::manual_seed(1); }
  torch::Tensor images_ = at::rand({3, 3, 16, 16}) * 2 - 1;
  torch::Tensor last_layer_ = at::ones({3, 1, 1, 1}).set_requires_grad(true);
  torch::Tensor reconstructions_ = images_ * last_layer_.view({3, 1, 1}) * 0.5;
};

TensorMap copy(const TensorMap& state) {
  TensorMap copies;
  for (const auto& [name, tensor] : state) copies[name] = tensor.clone();
  return copies;
}

/// Gradients of the discriminator's loss.
Scalars learn(Adversary& adversary, const torch::Tensor& images,
              const torch::Tensor& reconstructions, const torch::Tensor& share,
              const PenaltyPass& penalty = {}) {
  Scalars scalars;
  adversary.optimizer().clear_gradients();
  (share * adversary.objective(images, reconstructions, scalars, {}, penalty)).backward();
  return scalars;
}

TEST_F(AdversaryTest, NeitherSidesGradientsReachTheOther) {
  Adversary adversary(config(), at::kCPU);
  // The discriminator's gradients, then the generator's, then the step: it is the step on the
  // discriminator's alone.
  Adversary alone(config(), at::kCPU);
  learn(adversary, images_, reconstructions_, share(1));
  EXPECT_FALSE(last_layer_.grad().defined());
  adversary.generator_term(reconstructions_).backward();
  EXPECT_TRUE(last_layer_.grad().defined());
  adversary.optimizer().step();
  learn(alone, images_, reconstructions_, share(1));
  alone.optimizer().step();
  const auto expected = alone.state();
  for (const auto& [name, tensor] : adversary.state()) {
    if (name.find("running") != std::string::npos || name.find("tracked") != std::string::npos)
      continue;  // statistics of what it has seen, which only evaluation would read
    EXPECT_TRUE(at::equal(tensor, expected.at(name))) << name;
  }
}

TEST_F(AdversaryTest, TheWeightIsFixedOrAdaptive) {
  Adversary fixed(config(), at::kCPU), adaptive(config(true), at::kCPU);
  const auto reconstruction = at::l1_loss(reconstructions_, images_);
  const auto term = fixed.generator_term(reconstructions_);
  const LossScale scale(Precision::fp32), large(Precision::fp16);
  EXPECT_FLOAT_EQ(fixed.weight(share(0.25), reconstruction, term, last_layer_, scale).item<float>(),
                  0.125f);

  const auto other_term = adaptive.generator_term(reconstructions_);
  const auto expected = adaptive_weight(reconstruction, other_term, last_layer_, {}).item<float>();
  EXPECT_GT(expected, 0);
  for (const auto* one : {&scale, &large}) {
    const auto weight = adaptive.weight(share(0.25), reconstruction, other_term, last_layer_, *one);
    EXPECT_NEAR(weight.item<float>(), 0.125f * expected, 1e-5f * expected);
  }
}

TEST_F(AdversaryTest, LearnsToTellAndComesBackFromItsState) {
  Adversary adversary(config(), at::kCPU);
  double first = 0, last = 0;
  for (int step = 0; step < 60; ++step) {
    const auto scalars = learn(adversary, images_, reconstructions_, share(1));
    adversary.optimizer().step();
    (step == 0 ? first : last) = scalars.at("discriminator").item<double>();
    EXPECT_GT(gradient_norm(adversary.module(), at::kCPU).item<double>(), 0);
  }
  EXPECT_LT(last, 0.7 * first);

  const auto state = copy(adversary.state());
  Adversary other(config(), at::kCPU);
  other.load(state, "test");
  for (auto* one : {&adversary, &other}) {
    learn(*one, images_, reconstructions_, share(0.5));
    one->optimizer().step();
  }
  const auto expected = adversary.state();
  for (const auto& [name, tensor] : other.state()) {
    EXPECT_TRUE(at::equal(tensor, expected.at(name))) << name;
  }
}

TEST_F(AdversaryTest, AugmentsBySeedOnly) {
  auto changed = config();
  changed.adversarial.augment = {"flip", "colour", "shift", "cutout"};
  Adversary plain(config(), at::kCPU), augmenting(changed, at::kCPU);
  const auto seed = at::tensor(int64_t{5});
  const auto term = [&](Adversary& one, const PassDraws& draws) {
    return one.generator_term(reconstructions_, draws);
  };
  EXPECT_TRUE(at::equal(term(plain, {}), term(plain, {seed})));
  EXPECT_TRUE(at::equal(term(plain, {}), term(augmenting, {})));
  const auto found = term(augmenting, {seed});
  EXPECT_TRUE(at::equal(found, term(augmenting, {seed})));
  EXPECT_FALSE(at::equal(found, term(plain, {})));
  EXPECT_FALSE(at::equal(found, term(augmenting, {seed, 1})));
  found.backward();
  EXPECT_GT(last_layer_.grad().abs().sum().item<double>(), 0);
}

TEST_F(AdversaryTest, HoldsStillBelowItsTarget) {
  auto kept = config();
  kept.adversarial.target_hinge = 0.9;
  Adversary adversary(kept, at::kCPU);
  EXPECT_EQ(config().adversarial.target_hinge, 0);
  EXPECT_FALSE(Adversary(config(), at::kCPU).state().contains("hinge.mean"));
  adversary.state().at("hinge.mean").fill_(0.5);
  const auto before = copy(adversary.state());
  EXPECT_EQ(
      learn(adversary, images_, reconstructions_, share(1)).at("discriminator_held").item<float>(),
      1);
  adversary.optimizer().step();
  const auto changed = [&](const std::string& part) {
    int64_t count = 0;
    for (const auto& [name, tensor] : adversary.state()) {
      if (name.starts_with(part)) count += !at::equal(tensor, before.at(name));
    }
    return count;
  };
  EXPECT_EQ(changed("adam."), 0);
  EXPECT_EQ(changed("hinge."), 1);
  adversary.state().at("hinge.mean").fill_(1);
  learn(adversary, images_, reconstructions_, share(1));
  adversary.optimizer().step(at::zeros({}, at::kBool));
  EXPECT_GT(changed("adam."), 0);
}

/// Gradients of the discriminator in a step that adds what the R1 penalty alone gives.
TEST_F(AdversaryTest, PenalisesGradientsInStepsThatAreDue) {
  auto without = config();
  without.adversarial.lecam = 0;  // its running means would move the gradients
  auto with_r1 = without;
  with_r1.adversarial.r1 = 3;
  with_r1.adversarial.r1_every = 4;
  Adversary plain(without, at::kCPU), penalised(with_r1, at::kCPU);
  Discriminator alone(config().adversarial);
  load_tensors(*alone, with_prefix(plain.state(), "model."), "test");
  const auto gradients = [](const torch::nn::Module& module) {
    TensorMap found;
    for (const auto& item : module.named_parameters()) {
      const auto& gradient = item.value().grad();
      found[item.key()] = gradient.defined() ? gradient.clone() : at::zeros_like(item.value());
    }
    return found;
  };
  learn(plain, images_, reconstructions_, share(1));
  EXPECT_EQ(learn(penalised, images_, reconstructions_, share(1)).at("r1").item<double>(), 0);
  const auto expected = gradients(plain.module());
  for (const auto& [name, gradient] : gradients(penalised.module())) {
    EXPECT_TRUE(at::equal(gradient, expected.at(name))) << name;
  }

  const auto leaf = images_.clone().requires_grad_();
  const auto penalty = 4 * r1_penalty(leaf, alone->forward(leaf));
  (3 * penalty).backward();
  const auto added = gradients(*alone);
  EXPECT_GT(added.at("main.0.weight").norm().item<double>(), 0);
  for (const double scale : {0.0, 1024.0}) {
    const PenaltyPass due{true, scale > 0 ? at::full({}, scale) : torch::Tensor()};
    const auto r1 = learn(penalised, images_, reconstructions_, share(1), due).at("r1");
    EXPECT_NEAR(r1.item<double>(), penalty.item<double>(), 1e-5 * penalty.item<double>());
    for (const auto& [name, gradient] : gradients(penalised.module())) {
      EXPECT_TRUE(at::allclose(gradient, expected.at(name) + added.at(name), 1e-4, 1e-6)) << name;
    }
  }
}

TEST(Adversary, R1IsRareOrInEachStep) {
  AdversarialConfig adversarial;
  EXPECT_FALSE(has_rare_penalty(adversarial, 15)) << "off";
  adversarial.r1 = 1;
  EXPECT_FALSE(has_rare_penalty(adversarial, 14));
  EXPECT_TRUE(has_rare_penalty(adversarial, 15));
  EXPECT_FALSE(has_rare_penalty(adversarial, 16));
  adversarial.r1_every = 1;
  EXPECT_FALSE(has_rare_penalty(adversarial, 15)) << "all steps are alike";
  auto always = config();
  always.adversarial.r1 = 1;
  always.adversarial.r1_every = 1;
  Adversary adversary(always, at::kCPU);
  const auto images = at::rand({2, 3, 16, 16});
  EXPECT_GT(learn(adversary, images, images, share(1)).at("r1").item<double>(), 0);
}

TEST(Adversary, SmallImagesAreRefusedAtOnce) {
  auto small = config();
  small.adversarial.layers = 5;
  EXPECT_THROW(Adversary(small, at::kCPU), UserError);
}

}  // namespace
}  // namespace nsvq
