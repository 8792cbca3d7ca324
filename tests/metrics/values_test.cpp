// What each metric measures: golden values of scikit-image (golden/metrics.py) and small cases.
#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "nsvq/core/error.h"
#include "nsvq/core/random.h"
#include "nsvq/metrics/pixels.h"
#include "nsvq/metrics/psnr.h"
#include "nsvq/metrics/ssim.h"
#include "nsvq/metrics/usage.h"

namespace nsvq {
namespace {

using nlohmann::json;

/// 0..255 to [-1, 1].
torch::Tensor from_pixels(const torch::Tensor& pixels) {
  return pixels.to(torch::kFloat) / 127.5 - 1;
}

/// As `pixels` in golden/metrics.py.
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

TEST(MetricValues, MatchScikitImage) {
  std::ifstream file(NSVQ_TESTS_DIR "/golden/metrics.json");
  const auto cases = json::parse(file);
  ASSERT_GT(cases.size(), 0u);
  for (const auto& golden : cases) {
    SCOPED_TRACE(golden.at("shape").dump());
    const auto batch = golden_batch(golden);
    Psnr psnr;
    Ssim ssim;
    psnr.add(batch);
    ssim.add(batch);
    EXPECT_NEAR(psnr.values().at("psnr"), golden.at("psnr").get<double>(), 1e-9);
    EXPECT_NEAR(psnr.values().at("psnr_pooled"), golden.at("psnr_pooled").get<double>(), 1e-9);
    EXPECT_NEAR(ssim.values().at("ssim"), golden.at("ssim").get<double>(), 1e-10);
  }
}

TEST(Pixels, AreClampedAndRoundedToTheNearest) {
  const auto values = torch::tensor({-2.0, -1.0, -0.9965, -0.9955, 0.0, 0.999, 1.0, 1.5, 1e30});
  const auto expected = torch::tensor({0.0, 0.0, 0.0, 1.0, 128.0, 255.0, 255.0, 255.0, 255.0});
  EXPECT_TRUE(torch::equal(to_pixels(values), expected.to(torch::kFloat)));
  EXPECT_TRUE(torch::isnan(to_pixels(torch::full({1}, NAN))).item<bool>());
  const auto all = torch::arange(256).to(torch::kFloat);
  EXPECT_TRUE(torch::equal(to_pixels(from_pixels(all)), all));
}

TEST(Psnr, KnowsMeanFromPool) {
  // Errors of 255 and of 0 in every pixel: 0 dB and the cap; half the largest error pooled.
  const auto black = -torch::ones({1, 3, 1, 1}), white = torch::ones({1, 3, 1, 1});
  Psnr psnr;
  psnr.add({torch::cat({black, black}), torch::cat({white, black}), {}});
  EXPECT_NEAR(psnr.values().at("psnr"), 50, 1e-12);
  EXPECT_NEAR(psnr.values().at("psnr_pooled"), 10 * std::log10(2), 1e-12);
}

TEST(Psnr, OfEqualImagesIsCapped) {
  const auto images = torch::rand({2, 3, 33, 31}) * 2 - 1;
  Psnr psnr;
  psnr.add({images, images, {}});
  EXPECT_EQ(psnr.values().at("psnr"), 100);
  EXPECT_EQ(psnr.values().at("psnr_pooled"), 100);
}

TEST(Psnr, RefusesShapesThatDiffer) {
  Psnr psnr;
  EXPECT_THROW(psnr.add({torch::zeros({1, 3, 8, 8}), torch::zeros({1, 3, 8, 9}), {}}), c10::Error);
  EXPECT_THROW(psnr.add({torch::zeros({1, 3, 8, 8}), {}, {}}), c10::Error);
}

TEST(Ssim, OfEqualImagesIsOne) {
  const auto images = torch::rand({2, 3, 33, 31}) * 2 - 1;
  Ssim ssim;
  ssim.add({images, images, {}});
  EXPECT_NEAR(ssim.values().at("ssim"), 1, 1e-12);
}

TEST(Ssim, RefusesImagesBelowItsWindow) {
  Ssim ssim;
  const auto images = torch::zeros({1, 3, 7, 6});
  EXPECT_THROW(ssim.add({images, images, {}}), UserError);
  EXPECT_TRUE(ssim.values().empty());
}

TEST(Usage, CountsCodesAndTheirEntropy) {
  Usage usage(8);
  usage.add({{}, {}, torch::tensor({0, 0, 7, 7}, torch::kLong).reshape({1, 2, 2})});
  EXPECT_EQ(usage.values().at("utilisation"), 0.25);
  EXPECT_NEAR(usage.values().at("perplexity"), 2, 1e-12);
  usage.add({{}, {}, torch::arange(8).reshape({2, 2, 2})});
  EXPECT_EQ(usage.values().at("utilisation"), 1);
  const double entropy = -(2 * 0.25 * std::log(0.25) + 6 * std::log(1 / 12.0) / 12);
  EXPECT_NEAR(usage.values().at("perplexity"), std::exp(entropy), 1e-12);
}

TEST(Usage, OfOneCodeIsOne) {
  Usage usage(1);
  usage.add({{}, {}, torch::zeros({3, 1, 1}, torch::kLong)});
  EXPECT_EQ(usage.values().at("utilisation"), 1);
  EXPECT_EQ(usage.values().at("perplexity"), 1);
}

TEST(Usage, RefusesIndicesOutsideTheCodebook) {
  Usage usage(8);
  EXPECT_THROW(usage.add({{}, {}, torch::tensor({8}, torch::kLong)}), c10::Error);
  EXPECT_THROW(usage.add({{}, {}, torch::tensor({-1}, torch::kLong)}), c10::Error);
  EXPECT_THROW(usage.add({{}, {}, torch::zeros({1})}), c10::Error);
  EXPECT_THROW(usage.add(EvalBatch{}), c10::Error);
  EXPECT_TRUE(usage.values().empty());
  EXPECT_THROW(Usage(0), c10::Error);
}

}  // namespace
}  // namespace nsvq
