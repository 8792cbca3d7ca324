#include <gtest/gtest.h>

#include "nsvq/diffusion/prediction.h"
#include "tests/error_of.h"

namespace nsvq {
namespace {

NoiseLevel level_of(double abar) {
  const auto one = at::full({}, abar, at::kDouble);
  return {one.sqrt(), (1 - one).sqrt()};
}

TEST(Prediction, EveryTargetStandsForItsData) {
  torch::manual_seed(0);
  const auto data = at::randn({2, 3, 4, 4}, at::kDouble), noise = at::randn_like(data);
  for (const auto& kind : prediction_kinds()) {
    for (const double abar : {0.9999, 0.5, 4e-5}) {
      const auto level = level_of(abar);
      const auto noisy = add_noise(data, noise, level);
      const auto target = kind.target(data, noise, level);
      EXPECT_TRUE(at::allclose(kind.data(target, noisy, level), data, 1e-9, 1e-9)) << kind.name;
      // An error of the output is one of the data times the root of error_scale.
      const auto off = kind.data(target + 1e-3, noisy, level) - data;
      const double scale = kind.error_scale(level.snr()).item<double>();
      EXPECT_NEAR(off.square().mean().item<double>() * scale, 1e-6, 1e-9) << kind.name;
    }
  }
}

TEST(Prediction, TargetsByHand) {
  const auto data = at::full({1}, 2.0, at::kDouble), noise = at::full({1}, 3.0, at::kDouble);
  const auto level = level_of(0.64);  // signal 0.8, noise 0.6
  EXPECT_EQ(prediction_kind("eps").target(data, noise, level).item<double>(), 3);
  EXPECT_NEAR(prediction_kind("v").target(data, noise, level).item<double>(), 0.8 * 3 - 0.6 * 2,
              1e-12);
  EXPECT_NEAR(add_noise(data, noise, level).item<double>(), 0.8 * 2 + 0.6 * 3, 1e-12);
  EXPECT_NE(error_of([] { prediction_kind("epsilon"); }).find("diffusion.prediction"),
            std::string::npos);
}

TEST(Weighting, ByHand) {
  const auto snr = at::tensor({0.5, 5.0, 20.0}, at::kDouble);
  const auto weights = [&](const char* weighting, const char* prediction) {
    ObjectiveConfig config;
    config.of<MinSnrConfig>().gamma = 4;
    return weighting_kind(weighting).weights(snr, prediction_kind(prediction), config);
  };
  const auto expect = [](const torch::Tensor& actual, std::vector<double> expected) {
    EXPECT_TRUE(at::allclose(actual, at::tensor(expected, at::kDouble), 1e-12, 1e-12)) << actual;
  };
  expect(weights("none", "eps"), {1, 1, 1});
  expect(weights("none", "v"), {1, 1, 1});
  expect(weights("min-snr", "eps"), {1, 0.8, 0.2});                 // min(snr, 4) / snr
  expect(weights("min-snr", "v"), {0.5 / 1.5, 4.0 / 6, 4.0 / 21});  // min(snr, 4) / (snr + 1)
  EXPECT_NE(error_of([] { weighting_kind("min_snr"); }).find("did you mean 'min-snr'"),
            std::string::npos);
}

TEST(Weighting, SettingsOfMembersAreRows) {
  ObjectiveConfig config;
  for (const auto& row : objective_options(config)) {
    if (row.key == "diffusion.min_snr_gamma") EXPECT_EQ(row.value(), "5");
  }
  EXPECT_EQ(objective_options(config).size(), 3u);
}

}  // namespace
}  // namespace nsvq
