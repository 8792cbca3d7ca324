// What each metric measures, in cases small enough to know the answer.
#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "nsvq/core/device.h"
#include "nsvq/core/error.h"
#include "nsvq/metrics/conventions.h"
#include "nsvq/metrics/grey_picture.h"
#include "nsvq/metrics/metric.h"
#include "nsvq/metrics/metric_set.h"
#include "nsvq/metrics/sets/frechet.h"
#include "nsvq/metrics/usage.h"
#include "tests/weights_store.h"

namespace nsvq {
namespace {

/// A member of the registry; `group` images share a PSNR.
std::unique_ptr<Metric> make(const std::string& name, int64_t group = 1) {
  MetricOptions options;
  options.conventions.group = group;
  return metric_kind(name).make(options);
}

TEST(Psnr, KnowsMeanFromPool) {
  // Errors of 255 and of 0 in every pixel: 0 dB and the cap; half the largest error pooled.
  const auto black = -torch::ones({1, 3, 1, 1}), white = torch::ones({1, 3, 1, 1});
  const EvalBatch batch = {
      torch::cat({black, black, black}), torch::cat({white, black, white}), {}};
  const auto mean = make("psnr"), pairs = make("psnr", 2), pooled = make("psnr_pooled");
  for (auto* psnr : {mean.get(), pairs.get(), pooled.get()}) psnr->add(batch);
  EXPECT_NEAR(*mean->value(), 100 / 3.0, 1e-12);
  EXPECT_NEAR(*pairs->value(), 5 * std::log10(2), 1e-12);
  EXPECT_NEAR(*pooled->value(), 10 * std::log10(1.5), 1e-12);
}

TEST(Psnr, GroupsDoNotDependOnBatches) {
  torch::manual_seed(7);
  const auto images = torch::rand({7, 3, 5, 9}) * 2 - 1, noisy = images + torch::rand({7, 1, 1, 1});
  const auto whole = make("psnr", 3), single = make("psnr", 3);
  whole->add({images, noisy, {}});
  for (int64_t i = 0; i < 7; ++i) single->add({images.narrow(0, i, 1), noisy.narrow(0, i, 1), {}});
  EXPECT_NEAR(*whole->value(), *single->value(), 1e-12);
}

TEST(Psnr, OfEqualImagesIsCapped) {
  const auto images = torch::rand({2, 3, 33, 31}) * 2 - 1;
  const auto psnr = make("psnr");
  psnr->add({images, images, {}});
  EXPECT_EQ(*psnr->value(), 100);
}

TEST(Psnr, TakesImagesOfSeveralSizes) {
  const auto pooled = make("psnr_pooled");
  pooled->add({torch::zeros({1, 3, 2, 2}), torch::zeros({1, 3, 2, 2}), {}});
  pooled->add({-torch::ones({1, 3, 1, 4}), torch::ones({1, 3, 1, 4}), {}});
  EXPECT_NEAR(*pooled->value(), 10 * std::log10(2), 1e-12);
}

TEST(Psnr, RefusesShapesThatDiffer) {
  const auto psnr = make("psnr");
  EXPECT_THROW(psnr->add({torch::zeros({1, 3, 8, 8}), torch::zeros({1, 3, 8, 9}), {}}), c10::Error);
  EXPECT_THROW(psnr->add({torch::zeros({1, 3, 8, 8}), {}, {}}), c10::Error);
}

/// [1, 3, 1, 2] with levels of 0 to 255 by channel and pixel.
torch::Tensor levels(const std::vector<double>& values) {
  return torch::tensor(values, torch::kFloat).view({1, 3, 1, 2}) / 127.5 - 1;
}

TEST(GreyPicture, IsOfTheMeanColourOfAllImages) {
  const auto images = torch::cat({levels({0, 4, 10, 10, 100, 104}), levels({8, 4, 20, 40, 110, 90}),
                                  levels({6, 2, 4, 0, 96, 94})});
  const auto colour = levels({4, 4, 14, 14, 99, 99});  // its means are whole
  const auto psnr = make("psnr");
  psnr->add({images, colour.expand_as(images), {}});
  GreyPicture grey(5);  // two of them are broken
  EXPECT_TRUE(std::isnan(grey.psnr()));
  grey.add(images.slice(0, 0, 2), {4, 0});
  grey.add(images.slice(0, 2), {2});
  grey.add(images.slice(0, 0, 0), {});
  EXPECT_NEAR(grey.psnr(), *psnr->value(), 1e-9);

  // Two ranks.
  GreyPicture first(3), second(3);
  first.add(images.slice(0, 0, 2), {0, 2});
  second.add(images.slice(0, 2), {1});
  first.sums().add_(second.sums());
  EXPECT_NEAR(first.psnr(), grey.psnr(), 1e-9);
}

TEST(GreyPicture, OfGreyImagesIsCapped) {
  GreyPicture grey(2);
  grey.add(levels({7, 7, 8, 8, 9, 9}).expand({2, 3, 1, 2}), {0, 1});
  EXPECT_EQ(grey.psnr(), 100);
}

TEST(Ssim, OfEqualImagesIsOne) {
  const auto images = torch::rand({2, 3, 33, 31}) * 2 - 1;
  const auto ssim = make("ssim");
  ssim->add({images, images, {}});
  EXPECT_NEAR(*ssim->value(), 1, 1e-12);
}

TEST(Ssim, StripsOfLargeImagesGiveTheWhole) {
  // Each row has 3 * 2^19 elements, so that a strip has two of the five rows of windows.
  torch::manual_seed(8);
  const auto images = torch::rand({1, 3, 11, 1 << 19}) * 2 - 1;
  const auto noisy = images + torch::randn_like(images) * 0.2;
  const auto whole = make("ssim");
  whole->add({images, noisy, {}});
  double sum = 0;
  const int64_t width = 1 << 17, windows = (1 << 19) - 6;
  for (int64_t left = 0; left < windows; left += width) {
    const int64_t inside = std::min(width, windows - left);
    const auto strip = make("ssim");
    strip->add({images.narrow(3, left, inside + 6), noisy.narrow(3, left, inside + 6), {}});
    sum += *strip->value() * static_cast<double>(inside);
  }
  EXPECT_NEAR(*whole->value(), sum / static_cast<double>(windows), 1e-10);
}

TEST(Ssim, RefusesImagesBelowItsWindow) {
  const auto ssim = make("ssim");
  const auto images = torch::zeros({1, 3, 7, 6});
  EXPECT_THROW(ssim->add({images, images, {}}), UserError);
  EXPECT_FALSE(ssim->value());
}

TEST(Lpips, IsTheMeanOverImagesOfRoundedValues) {
  torch::manual_seed(9);
  WeightsStore store;
  store.add_lpips("squeeze");
  const auto lpips = make_lpips("squeeze", at::kCPU);
  const auto images = torch::rand({3, 3, 33, 41}) * 2 - 1;
  const auto other = images + torch::randn_like(images) * 0.3;
  const auto expected = [&](PixelRule rule) {
    const torch::NoGradGuard no_grad;
    return lpips->forward(to_network_input(images, rule), to_network_input(other, rule))
        .mean()
        .item<double>();
  };
  for (const auto rule : {PixelRule::rounded, PixelRule::unrounded}) {
    MetricOptions options;
    options.conventions.network = rule;
    const auto metric = metric_kind("lpips-squeeze").make(options);
    metric->add({images.narrow(0, 0, 1), other.narrow(0, 0, 1), {}});
    metric->add({images.narrow(0, 1, 2), other.narrow(0, 1, 2), {}});
    EXPECT_NEAR(*metric->value(), expected(rule), 1e-5 * expected(rule));
  }
  EXPECT_NE(expected(PixelRule::rounded), expected(PixelRule::unrounded));
}

TEST(FrechetMetric, ComparesSetsOfAnySize) {
  // Features are the colours of images of one pixel: in one dimension |m1 - m2|^2 + (s1 - s2)^2.
  const auto first_channel = [](const torch::Tensor& images) {
    return images.select(1, 0).flatten(1);
  };
  FrechetMetric metric({"colour", 1, first_channel});
  const auto column = [](std::vector<float> values) {
    return torch::tensor(values).view({-1, 1, 1, 1}).expand({-1, 3, 1, 1}).contiguous();
  };
  metric.add({column({-0.5, 0.5}), {}, {}});
  EXPECT_FALSE(metric.value());
  metric.add({{}, column({0.25}), {}});
  EXPECT_FALSE(metric.value());
  metric.add({{}, column({0.5, 0.75}), {}});
  const double spread = std::sqrt(0.5) - 0.25;
  EXPECT_NEAR(*metric.value(), 0.25 + spread * spread, 1e-9);
}

/// A second measurement on the same images does not look at them again.
TEST(FrechetMetric, TakesWhatAnEarlierOneKnowsOfTheImages) {
  int64_t seen = 0;
  const auto first_channel = [&](const torch::Tensor& images) {
    seen += images.size(0);
    return images.select(1, 0).flatten(1);
  };
  const auto make = [&](std::shared_ptr<const Gaussian> reference = nullptr) {
    return FrechetMetric({"colour", 1, first_channel}, std::move(reference));
  };
  const auto images = torch::rand({5, 3, 1, 1}), others = torch::rand({5, 3, 1, 1});
  auto first = make(), second = make();
  EXPECT_EQ(first.image_statistics(), nullptr);
  first.add({images, others, {}});
  first.sums();  // as an evaluation does
  second.know_images(first.image_statistics());
  seen = 0;
  second.add({images, others, {}});
  EXPECT_EQ(seen, 5) << "the reconstructions";
  EXPECT_DOUBLE_EQ(*second.value(), *first.value());
  EXPECT_EQ(second.image_statistics(), second.image_statistics()) << "it hands them on";
  EXPECT_NE(second.image_statistics(), nullptr);
  auto by_reference = make(std::make_shared<Gaussian>(first.images()));
  by_reference.add({images, others, {}});
  EXPECT_EQ(by_reference.image_statistics(), nullptr) << "they are not the images'";
  MetricSet none({"psnr"}, {});
  none.know_images({{"fid", first.image_statistics()}});
  EXPECT_TRUE(none.image_statistics().empty());
}

TEST(FrechetMetric, SaysOnceThatTheReferenceIsOfAnotherSizeOrNamesNone) {
  const auto first_channel = [](const torch::Tensor& images) {
    return images.select(1, 0).flatten(1);
  };
  const auto logged = [&](int64_t size) {
    const auto reference =
        std::make_shared<Gaussian>(Gaussian{torch::zeros({1}), torch::eye(1), 9, size});
    FrechetMetric metric({"colour", 1, first_channel}, reference);
    testing::internal::CaptureStderr();
    for (int i = 0; i < 2; ++i) metric.add({{}, torch::zeros({1, 3, 1, 1}), {}});
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(logged(1), "");
  for (const auto& [size, text] : {std::pair{2, "are of images of 2x2, but these are of 1x1"},
                                   {0, "do not name one size of their images; if it is not 1x1"}}) {
    const auto line = logged(size);
    EXPECT_NE(line.find(text), std::string::npos) << line;
    EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1) << line;
  }
}

TEST(Usage, CountsCodesAndTheirEntropy) {
  Usage share(8, utilisation), bits(8, token_entropy), even(8, perplexity);
  const auto add = [&](const torch::Tensor& indices) {
    for (auto* usage : {&share, &bits, &even}) usage->add({{}, {}, indices});
  };
  add(torch::tensor({0, 0, 7, 7}, torch::kLong).reshape({1, 2, 2}));
  EXPECT_EQ(*share.value(), 0.25);
  EXPECT_NEAR(*bits.value(), 1, 1e-12);
  EXPECT_NEAR(*even.value(), 2, 1e-12);
  add(torch::arange(8).reshape({2, 2, 2}));
  EXPECT_EQ(*share.value(), 1);
  const double entropy = -(2 * 0.25 * std::log2(0.25) + 6 * std::log2(1 / 12.0) / 12);
  EXPECT_NEAR(*bits.value(), entropy, 1e-12);
  EXPECT_NEAR(*even.value(), std::exp2(entropy), 1e-12);
  EXPECT_EQ(share.hits().sum().item<int64_t>(), 12);
}

TEST(Figures, OfManyBatchesOnTheGpuAreThoseOfTheCpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  torch::manual_seed(3);
  const auto psnr_here = make("psnr", 3), psnr_there = make("psnr", 3);
  const auto ssim_here = make("ssim"), ssim_there = make("ssim");
  Usage usage_here(33, token_entropy), usage_there(33, token_entropy);
  const c10::Device gpu(c10::kCUDA, 0);
  for (const int64_t count : {1, 5, 0, 2, 7, 3, 1, 4}) {
    const auto images = torch::rand({count, 3, 33, 31}) * 2 - 1;
    const auto noisy = images + torch::randn_like(images) * 0.2;
    const EvalBatch here = {images, noisy, torch::randint(33, {count, 4, 4}, torch::kLong)};
    const EvalBatch there = {images.to(gpu), noisy.to(gpu), here.indices.to(gpu)};
    for (Metric* metric : {psnr_here.get(), ssim_here.get(), static_cast<Metric*>(&usage_here)}) {
      metric->add(here);
    }
    for (Metric* metric :
         {psnr_there.get(), ssim_there.get(), static_cast<Metric*>(&usage_there)}) {
      metric->add(there);
    }
  }
  EXPECT_NEAR(*psnr_there->value(), *psnr_here->value(), 1e-9);
  EXPECT_NEAR(*ssim_there->value(), *ssim_here->value(), 1e-9);
  EXPECT_TRUE(usage_there.hits().equal(usage_here.hits()));
}

TEST(Usage, RefusesIndicesOutsideTheCodebookOnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  for (const int64_t wrong : {-1, 8, 1000}) {
    Usage usage(8, utilisation);
    usage.add({{}, {}, torch::tensor({wrong, int64_t{3}}, torch::kLong).to(at::kCUDA)});
    EXPECT_THROW(usage.value(), c10::Error) << wrong;
  }
}

TEST(Usage, OfOneCodeIsOne) {
  const auto hits = torch::tensor({0, 3}, torch::kLong);
  EXPECT_EQ(utilisation(hits), 0.5);
  EXPECT_EQ(perplexity(hits), 1);
  EXPECT_EQ(token_entropy(hits), 0);
  EXPECT_FALSE(std::signbit(token_entropy(hits)));
}

TEST(Usage, RefusesIndicesOutsideTheCodebook) {
  Usage usage(8, utilisation);
  EXPECT_THROW(usage.add({{}, {}, torch::tensor({8}, torch::kLong)}), c10::Error);
  EXPECT_THROW(usage.add({{}, {}, torch::tensor({-1}, torch::kLong)}), c10::Error);
  EXPECT_THROW(usage.add({{}, {}, torch::zeros({1})}), c10::Error);
  EXPECT_THROW(usage.add(EvalBatch{}), c10::Error);
  EXPECT_FALSE(usage.value());
  EXPECT_THROW(Usage(0, utilisation), c10::Error);
}

}  // namespace
}  // namespace nsvq
