// Every member of the registry, by the rules of the family.
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>
#include <limits>
#include <set>

#include "nsvq/metrics/metric.h"

namespace nsvq {
namespace {

constexpr int64_t kCodes = 33;

EvalBatch random_batch(int64_t images, int64_t height = 19, int64_t width = 31) {
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

void expect_same(const std::map<std::string, double>& a, const std::map<std::string, double>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, value] : a) {
    ASSERT_TRUE(b.contains(name)) << name;
    EXPECT_NEAR(value, b.at(name), 1e-11 * (1 + std::abs(value))) << name;
  }
}

class EveryMetric : public testing::TestWithParam<MetricKind> {
 protected:
  EveryMetric() { torch::manual_seed(5); }
  std::unique_ptr<Metric> make() { return GetParam().make(kCodes); }
};

TEST_P(EveryMetric, IsEmptyBeforeTheFirstBatch) {
  const auto metric = make();
  EXPECT_TRUE(metric->values().empty());
  metric->add(random_batch(0));
  EXPECT_TRUE(metric->values().empty());
  metric->add(random_batch(1));
  EXPECT_FALSE(metric->values().empty());
  for (const auto& [name, value] : metric->values()) EXPECT_TRUE(std::isfinite(value)) << name;
}

TEST_P(EveryMetric, BatchesDoNotMatter) {
  const auto batch = random_batch(5);
  const auto whole = make(), parts = make();
  whole->add(batch);
  parts->add(slice(batch, 0, 1));
  parts->add(slice(batch, 1, 1));
  parts->add(slice(batch, 1, 5));
  expect_same(whole->values(), parts->values());
}

TEST_P(EveryMetric, SumsOfRanksGiveTheWhole) {
  const auto batch = random_batch(5);
  const auto whole = make(), first = make(), second = make(), idle = make();
  whole->add(batch);
  first->add(slice(batch, 0, 2));
  second->add(slice(batch, 2, 5));
  const auto into = first->sums(), from = second->sums(), nothing = idle->sums();
  ASSERT_EQ(into.size(), from.size());
  ASSERT_EQ(into.size(), nothing.size());
  for (size_t i = 0; i < into.size(); ++i) {
    ASSERT_EQ(into[i].sizes(), nothing[i].sizes());
    EXPECT_TRUE(into[i].device().is_cpu());
    into[i].add_(from[i]).add_(nothing[i]);
  }
  expect_same(whole->values(), first->values());
}

TEST_P(EveryMetric, TakesHalfPrecisionStridedAndGradientTensors) {
  auto batch = random_batch(2);
  batch.images = batch.images.to(torch::kBFloat16).contiguous(torch::MemoryFormat::ChannelsLast);
  batch.reconstructions = batch.images.flip(3).transpose(2, 3).contiguous().transpose(2, 3);
  const auto half = make(), plain = make();
  half->add({batch.images, batch.reconstructions.detach().requires_grad_(),
             batch.indices.transpose(1, 2)});
  plain->add({batch.images.to(torch::kFloat).contiguous(),
              batch.reconstructions.to(torch::kFloat).contiguous(), batch.indices});
  expect_same(plain->values(), half->values());
  for (const auto& sum : half->sums()) EXPECT_FALSE(sum.requires_grad());
}

TEST_P(EveryMetric, NanIsCarriedNotThrown) {
  auto batch = random_batch(2);
  batch.reconstructions[1][0][3][3] = std::numeric_limits<float>::quiet_NaN();
  const auto metric = make();
  metric->add(batch);
  metric->add(random_batch(1));
  const auto values = metric->values();
  ASSERT_FALSE(values.empty());
  if (GetParam().name == "usage") return;  // looks at indices only
  for (const auto& [name, value] : values) EXPECT_TRUE(std::isnan(value)) << name;
}

TEST_P(EveryMetric, CudaGivesTheSame) {
  if (!torch::hasCUDA()) GTEST_SKIP() << "no GPU";
  const auto batch = random_batch(3);
  const auto cpu = make(), cuda = make();
  cpu->add(batch);
  cuda->add({batch.images.cuda(), batch.reconstructions.cuda(), batch.indices.cuda()});
  expect_same(cpu->values(), cuda->values());
  for (const auto& sum : cuda->sums()) EXPECT_TRUE(sum.device().is_cpu());
}

INSTANTIATE_TEST_SUITE_P(Registry, EveryMetric, testing::ValuesIn(metric_kinds()),
                         [](const auto& info) { return info.param.name; });

TEST(MetricRegistry, NamesAreUniqueAndDescribed) {
  std::set<std::string> kinds, values;
  for (const auto& kind : metric_kinds()) {
    EXPECT_TRUE(kinds.insert(kind.name).second) << kind.name;
    EXPECT_FALSE(kind.summary.empty()) << kind.name;
    const auto metric = kind.make(kCodes);
    metric->add(random_batch(1));
    for (const auto& item : metric->values()) EXPECT_TRUE(values.insert(item.first).second);
  }
  EXPECT_EQ(values,
            (std::set<std::string>{"perplexity", "psnr", "psnr_pooled", "ssim", "utilisation"}));
}

}  // namespace
}  // namespace nsvq
