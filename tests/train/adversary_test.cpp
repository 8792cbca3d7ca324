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
              const torch::Tensor& reconstructions, const torch::Tensor& share) {
  Scalars scalars;
  adversary.optimizer().clear_gradients();
  (share * adversary.objective(images, reconstructions, scalars)).backward();
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
  const auto expected = adaptive_weight(reconstruction, other_term, last_layer_, 1e4).item<float>();
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

TEST(Adversary, SmallImagesAreRefusedAtOnce) {
  auto small = config();
  small.adversarial.layers = 5;
  EXPECT_THROW(Adversary(small, at::kCPU), UserError);
}

}  // namespace
}  // namespace nsvq
