// Golden values of scikit-image (golden/metrics.py) and of the conventions (golden/conventions.py).
#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "nsvq/core/error.h"
#include "nsvq/core/random.h"
#include "nsvq/metrics/conventions.h"
#include "nsvq/metrics/metric_set.h"

namespace nsvq {
namespace {

using nlohmann::json;

/// 0..255 to [-1, 1].
torch::Tensor from_pixels(const torch::Tensor& pixels) {
  return pixels.to(torch::kFloat) / 127.5 - 1;
}

/// `pixels` of golden/metrics.py.
EvalBatch golden_batch(const json& golden) {
  const auto shape = golden.at("shape").get<std::vector<int64_t>>();
  const auto seed = golden.at("seed").get<uint64_t>();
  const auto noise = golden.at("noise").get<int64_t>();
  const int64_t width = shape[2];
  Random texture(seed), error(seed + 1);
  const auto images = torch::empty({shape[0], 3, shape[1], width}, torch::kLong);
  const auto changed = torch::empty_like(images);
  for (int64_t i = 0; i < images.numel(); ++i) {
    const int64_t column = i % width;
    const int64_t value = column * 100 / width + (column > width / 2 ? 50 : 0) +
                          static_cast<int64_t>(60 * texture.uniform());
    const auto span = static_cast<double>(2 * noise + 1);
    const int64_t shift = static_cast<int64_t>(span * error.uniform()) - noise;
    images.data_ptr<int64_t>()[i] = value;
    changed.data_ptr<int64_t>()[i] = std::clamp<int64_t>(value + shift, 0, 255);
  }
  return {from_pixels(images), from_pixels(changed), {}};
}

std::map<std::string, double> values_of(const EvalBatch& batch, const Conventions& conventions) {
  MetricSet metrics({"psnr", "psnr_pooled", "ssim"}, {.conventions = conventions});
  metrics.add(batch);
  return metrics.values();
}

TEST(MetricValues, MatchScikitImage) {
  std::ifstream file(NSVQ_TESTS_DIR "/golden/metrics.json");
  const auto cases = json::parse(file);
  ASSERT_GT(cases.size(), 0u);
  for (const auto& golden : cases) {
    SCOPED_TRACE(golden.at("shape").dump());
    const auto batch = golden_batch(golden);
    const auto values = values_of(batch, {});
    EXPECT_NEAR(values.at("psnr"), golden.at("psnr").get<double>(), 1e-9);
    EXPECT_NEAR(values.at("psnr_pooled"), golden.at("psnr_pooled").get<double>(), 1e-9);
    EXPECT_NEAR(values.at("ssim"), golden.at("ssim").get<double>(), 1e-10);
  }
}

/// `batch` of golden/conventions.py.
EvalBatch between_levels(const json& golden) {
  const auto shape = golden.at("shape").get<std::vector<int64_t>>();
  const auto seed = golden.at("seed").get<uint64_t>();
  const auto noise = golden.at("noise").get<double>();
  const int64_t width = shape[2], image = 3 * shape[1] * width;
  Random texture(seed), error(seed + 1);
  const auto levels = torch::empty({shape[0], 3, shape[1], width}, torch::kDouble);
  const auto off = torch::empty_like(levels);
  for (int64_t i = 0; i < levels.numel(); ++i) {
    const int64_t column = i % width;
    const double level = static_cast<double>(column * 100 / width + (column > width / 2 ? 50 : 0)) +
                         std::floor(106 * texture.uniform());
    const double share = static_cast<double>(1 + i / image % 5) / 5;
    levels.data_ptr<double>()[i] = level;
    off.data_ptr<double>()[i] = level + noise * share * (2 * error.uniform() - 1);
  }
  return {(levels / 127.5 - 1).to(torch::kFloat), (off / 127.5 - 1).to(torch::kFloat), {}};
}

TEST(MetricValues, MatchTheScriptsOfPeers) {
  std::ifstream file(NSVQ_TESTS_DIR "/golden/conventions.json");
  const auto cases = json::parse(file);
  ASSERT_GT(cases.size(), 0u);
  for (const auto& golden : cases) {
    const auto batch = between_levels(golden);
    for (const auto& [name, figures] : golden.at("figures").items()) {
      auto conventions = find_conventions(name == "float" ? "nsvq" : name);
      if (name == "float") conventions.pixels = PixelRule::unrounded;
      const auto values = values_of(batch, conventions);
      for (const auto& [metric, expected] : figures.items()) {
        SCOPED_TRACE(name + " " + metric + " " + golden.at("shape").dump());
        // The scripts of peers compute in fp32.
        EXPECT_NEAR(values.at(metric), expected.get<double>(), 2e-6);
      }
    }
  }
}

TEST(Conventions, AreFoundByName) {
  EXPECT_EQ(find_conventions("nsvq").group, 1);
  EXPECT_EQ(find_conventions("simvq").group, 64);
  EXPECT_EQ(find_conventions("llamagen").ssim_range, 2);
  EXPECT_THROW(find_conventions("simqv"), UserError);
  EXPECT_EQ(find_pixel_rule("float"), PixelRule::unrounded);
  EXPECT_THROW(find_pixel_rule("Float"), UserError);
}

TEST(Pixels, AreClampedAndRoundedToTheNearest) {
  const auto values = torch::tensor({-2.0, -1.0, -0.9965, -0.9955, 0.0, 0.999, 1.0, 1.5, 1e30});
  const auto expected = torch::tensor({0.0, 0.0, 0.0, 1.0, 128.0, 255.0, 255.0, 255.0, 255.0});
  EXPECT_TRUE(torch::equal(to_pixels(values), expected.to(torch::kFloat)));
  EXPECT_TRUE(torch::isnan(to_pixels(torch::full({1}, NAN))).item<bool>());
  const auto all = torch::arange(256).to(torch::kFloat);
  EXPECT_TRUE(torch::equal(to_pixels(from_pixels(all)), all));
  EXPECT_TRUE(
      torch::equal(to_network_input(from_pixels(all), PixelRule::rounded), from_pixels(all)));
}

TEST(Pixels, AreTruncatedOrLeft) {
  const auto values = torch::tensor({-2.0, -1.0, -0.9955, 0.0, 0.999, 1.0, 1.5});
  const auto truncated = torch::tensor({0.0, 0.0, 0.0, 127.0, 254.0, 255.0, 255.0});
  const auto left = torch::tensor({0.0, 0.0, 0.57375, 127.5, 254.8725, 255.0, 255.0});
  EXPECT_TRUE(torch::equal(to_pixels(values, PixelRule::truncated), truncated.to(torch::kFloat)));
  EXPECT_TRUE(torch::allclose(to_pixels(values, PixelRule::unrounded), left.to(torch::kFloat)));
  EXPECT_TRUE(torch::equal(to_network_input(values, PixelRule::unrounded), values.clamp(-1, 1)));
}

}  // namespace
}  // namespace nsvq
