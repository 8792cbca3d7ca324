#include "nsvq/metrics/sets/inception_score.h"

#include <array>
#include <memory>
#include <numeric>
#include <utility>

#include "nsvq/core/random.h"
#include "nsvq/metrics/metric.h"
#include "nsvq/metrics/sets/inception_features.h"
#include "nsvq/nn/features/feature_net.h"
#include "nsvq/nn/weights.h"

namespace nsvq {

namespace {

constexpr int64_t kSplits = InceptionScores::kSplits;
constexpr auto kHeadWeights = "inception-fc";

/// The split of the image of this number. Each ten of neighbours is spread over the splits in an
/// order of its own, so that sorted classes come to all of them alike.
int64_t split_of(int64_t image) {
  std::array<int64_t, kSplits> order{};
  std::iota(order.begin(), order.end(), 0);
  Random random(combine_seeds({static_cast<uint64_t>(image / kSplits)}));
  for (int64_t i = kSplits - 1; i > 0; --i) std::swap(order[i], order[random.below(i + 1)]);
  return order[image % kSplits];
}

}  // namespace

InceptionScores::InceptionScores(int64_t classes)
    : sums_(torch::zeros({kSplits, classes + 2}, torch::kDouble)) {}

void InceptionScores::add(const torch::Tensor& log_probabilities) {
  const auto p = log_probabilities.exp();
  const auto entropies = (p * log_probabilities).sum(1, /*keepdim=*/true);
  const auto rows = torch::cat({p, entropies, torch::ones_like(entropies)}, 1);
  const auto members = torch::zeros({kSplits, rows.size(0)}, torch::kDouble);
  auto member = members.accessor<double, 2>();
  for (int64_t i = 0; i < rows.size(0); ++i) member[split_of(seen_ + i)][i] = 1;
  seen_ += rows.size(0);
  // A product with zeros and ones: sums by index are in no fixed order on a GPU.
  sums_ = sums_.to(rows.device()) + members.to(rows.device()).mm(rows);
}

std::vector<torch::Tensor> InceptionScores::sums() {
  sums_ = sums_.cpu();
  return {sums_};
}

void InceptionScores::reset() {
  sums_.zero_();
  seen_ = 0;
}

/// One for each split that has images.
torch::Tensor InceptionScores::scores() const {
  const auto all = sums_.cpu();
  const auto filled = all.index({all.select(1, -1) > 0});
  const auto counts = filled.narrow(1, -1, 1);
  const auto means = filled.slice(1, 0, -2) / counts;
  const auto entropies = filled.select(1, -2) / counts.squeeze(1);
  return (entropies - torch::xlogy(means, means).sum(1)).exp();
}

std::optional<double> InceptionScores::mean() const {
  if (sums_.select(1, -1).sum().item<double>() < kSplits) return std::nullopt;
  return scores().mean().item<double>();
}

std::optional<double> InceptionScores::deviation() const {
  if (!mean()) return std::nullopt;
  return scores().std(/*unbiased=*/false).item<double>();
}

namespace {

class InceptionScore : public Metric {
 public:
  InceptionScore(std::shared_ptr<InceptionFeatures> network, c10::Device device)
      : network_(std::move(network)), scores_(InceptionHead::kClasses) {
    require_official("is", kHeadWeights);
    load_parameters(head_, load_weights(kHeadWeights).tensors, "weights inception-fc");
    head_.to(device);
  }

  void add(const EvalBatch& batch) override {
    const torch::NoGradGuard no_grad;
    const auto& images = batch.reconstructions;
    if (!images.defined() || images.size(0) == 0) return;
    scores_.add(head_.log_probabilities(network_->of(images).pool));
  }
  std::vector<torch::Tensor> sums() override { return scores_.sums(); }
  void reset() override { scores_.reset(); }
  std::optional<double> value() const override { return scores_.mean(); }
  std::optional<double> deviation() const override { return scores_.deviation(); }

 private:
  std::shared_ptr<InceptionFeatures> network_;
  InceptionHead head_;
  InceptionScores scores_;
};

}  // namespace

std::vector<MetricKind> inception_score_kinds() {
  const std::string summary = "inception score, mean over 10 splits, without the class head's bias";
  return {{.name = "is",
           .other_names = {"inception-score"},
           .summary = summary,
           .display = {.title = "Inception score",
                       .chart = "Inception score",
                       .axis = "",
                       .unit = "",
                       .decimals = 2},
           .input = MetricInput::made,
           .weights = {kInceptionWeights, kHeadWeights},
           .least_images = kSplits,
           .choices =
               [summary](const Conventions& conventions) {
                 return summary + ", " + inception_in_words(conventions);
               },
           .make =
               [](const MetricOptions& options) {
                 return std::make_unique<InceptionScore>(inception_features("is", options),
                                                         options.device);
               }}};
}

}  // namespace nsvq
