// Parity with golden/adversarial.py, which also made golden/adversarial.json.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "nsvq/losses/adversarial.h"

namespace nsvq {
namespace {

using nlohmann::json;

struct Precision {
  const char* name;
  torch::ScalarType dtype;
  double tolerance;  // relative
};

const Precision kPrecisions[] = {{"float32", at::kFloat, 2e-6}, {"float64", at::kDouble, 1e-12}};

json read_golden(const Precision& precision) {
  std::ifstream file(NSVQ_TESTS_DIR "/golden/adversarial.json");
  return json::parse(file).at(precision.name);
}

/// Equal to golden/adversarial.py.
torch::Tensor formula(torch::IntArrayRef shape, int64_t phase, double scale = 1) {
  const auto i = at::arange(c10::multiply_integers(shape), at::kLong);
  const auto whole = (((7 * i + 31) * i + 17) * i + 101 * phase).remainder(2003);
  return ((whole.to(at::kDouble) / 1001 - 1) * scale).reshape(shape);
}

void expect_value(const torch::Tensor& actual, const json& golden, double tolerance) {
  EXPECT_EQ(actual.dim(), 0);
  const auto expected = golden.get<double>();
  EXPECT_NEAR(actual.item<double>(), expected, tolerance * std::abs(expected));
}

/// Every element, relative to the largest one.
void expect_all(const torch::Tensor& actual, const json& golden, double tolerance) {
  ASSERT_TRUE(actual.defined());
  const auto expected = at::tensor(golden.get<std::vector<double>>(), at::kDouble);
  ASSERT_EQ(actual.numel(), expected.numel());
  EXPECT_LE((actual.flatten().to(at::kDouble) - expected).abs().max().item<double>(),
            tolerance * expected.abs().max().item<double>());
}

TEST(AdversarialGolden, LossesAndGradientsEqualPyTorchs) {
  for (const auto& [precision, dtype, tolerance] : kPrecisions) {
    const auto golden = read_golden({precision, dtype, tolerance});
    ASSERT_EQ(golden.at("losses").size(), 12u);
    for (const auto& expected : golden.at("losses")) {
      const bool generator = expected.at("loss") == "generator";
      const std::string kind = expected.at("kind");
      SCOPED_TRACE(
          fmt::format("{} {} {}", precision, generator ? "generator" : "discriminator", kind));
      const auto shape = expected.at("shape").get<std::vector<int64_t>>();
      const auto real = formula(shape, 5, 4).to(dtype).requires_grad_();
      const auto fake = formula(shape, 3, 4).to(dtype).requires_grad_();
      const auto loss =
          generator ? generator_loss(kind, fake) : discriminator_loss(kind, real, fake);
      EXPECT_EQ(loss.scalar_type(), dtype);
      loss.backward();
      expect_value(loss, expected.at("value"), tolerance);
      expect_all(fake.grad(), expected.at("fake_gradient"), tolerance);
      if (!generator) expect_all(real.grad(), expected.at("real_gradient"), tolerance);
    }
  }
}

TEST(AdversarialGolden, LecamEqualsPyTorchsOverSeveralSteps) {
  for (const auto& [precision, dtype, tolerance] : kPrecisions) {
    SCOPED_TRACE(precision);
    const auto golden = read_golden({precision, dtype, tolerance});
    Lecam lecam;
    int64_t step = 0;
    for (const auto& expected : golden.at("lecam")) {
      const auto real = (formula({2, 1, 3, 5}, 10 + step, 4) + 50).to(dtype).requires_grad_();
      const auto fake = (formula({2, 1, 3, 5}, 20 + step, 4) - 30).to(dtype).requires_grad_();
      lecam.update(real, fake);
      const auto loss = lecam.penalty(real - 50, fake + 30);
      EXPECT_EQ(loss.scalar_type(), dtype);
      loss.backward();
      const auto buffers = lecam.named_buffers();
      expect_value(buffers["ema_real"], expected.at("ema_real"), 1e-12);
      expect_value(buffers["ema_fake"], expected.at("ema_fake"), 1e-12);
      expect_value(loss, expected.at("value"), tolerance);
      expect_all(real.grad(), expected.at("real_gradient"), tolerance);
      expect_all(fake.grad(), expected.at("fake_gradient"), tolerance);
      ++step;
    }
    EXPECT_EQ(step, 6);
  }
}

TEST(AdversarialGolden, AdaptiveWeightAndTheGradientsAfterItEqualPyTorchs) {
  for (const auto& [precision, dtype, tolerance] : kPrecisions) {
    SCOPED_TRACE(precision);
    const auto expected = read_golden({precision, dtype, tolerance}).at("adaptive");
    const auto first = formula({5, 4, 3, 3}, 1, 0.4).to(dtype).requires_grad_();
    const auto last = formula({3, 5, 3, 3}, 2, 0.4).to(dtype).requires_grad_();
    const auto critic = formula({1, 3, 4, 4}, 3, 0.4).to(dtype);
    const auto latents = formula({2, 4, 5, 7}, 4).to(dtype);
    const auto images = formula({2, 3, 5, 7}, 5).to(dtype);
    const auto hidden = at::silu(at::conv2d(latents, first, {}, 1, 1));
    const auto decoded = at::conv2d(hidden, last, {}, 1, 1);
    const auto reconstruction = at::l1_loss(decoded, images);
    const auto adversarial =
        generator_loss("non_saturating", at::conv2d(decoded, critic, {}, 2, 1));

    const auto weight = adaptive_weight(reconstruction, adversarial, last, {});
    EXPECT_FALSE(weight.requires_grad());
    EXPECT_FALSE(last.grad().defined());
    // Sums over the norms and the convolutions may run in another order.
    expect_value(weight, expected.at("weight"), 5 * tolerance);
    (reconstruction + weight * adversarial).backward();
    expect_all(first.grad(), expected.at("first_gradient"), 5 * tolerance);
    expect_all(last.grad(), expected.at("last_gradient"), 5 * tolerance);
  }
}

}  // namespace
}  // namespace nsvq
