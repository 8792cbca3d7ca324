#include "nsvq/metrics/sets/precision_recall.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "nsvq/core/log.h"
#include "nsvq/dist/group.h"
#include "nsvq/metrics/metric.h"
#include "nsvq/metrics/sets/inception_features.h"

namespace nsvq {

namespace {

/// Rounding of a squared distance, as a share of both squared norms: a product of 2,048 terms in
/// fp64 has less. fp32 features are rounded by more than its root.
constexpr double kRounding = 1e-12;

/// Rows [begin, end) of fp32 vectors as fp64, and their squared norms.
struct Block {
  torch::Tensor rows, norms;
};

Block block_of(const torch::Tensor& vectors, int64_t begin, int64_t size) {
  const int64_t count = std::min(size, vectors.size(0) - begin);
  const auto rows = vectors.narrow(0, begin, count).to(torch::kDouble);
  return {rows, rows.square().sum(1)};
}

/// Squared distances [a, b] by one product, at least 0.
torch::Tensor squared_distances(const Block& a, const Block& b) {
  const auto norms = a.norms.unsqueeze(1) + b.norms.unsqueeze(0);
  return norms.addmm(a.rows, b.rows.t(), /*beta=*/1, /*alpha=*/-2).clamp_min_(0);
}

}  // namespace

torch::Tensor squared_radii(const torch::Tensor& vectors, int64_t neighbours, int64_t block) {
  const int64_t count = vectors.size(0);
  TORCH_CHECK(neighbours > 0 && neighbours < count, "precision and recall: needs more than ",
              neighbours, " vectors, got ", count);
  std::vector<torch::Tensor> radii;
  for (int64_t begin = 0; begin < count; begin += block) {
    const auto a = block_of(vectors, begin, block);
    torch::Tensor nearest;  // [a, neighbours at most], of the blocks so far
    for (int64_t other = 0; other < count; other += block) {
      auto distances = squared_distances(a, block_of(vectors, other, block));
      if (other == begin) distances.fill_diagonal_(std::numeric_limits<double>::infinity());
      if (nearest.defined()) distances = torch::cat({nearest, distances}, 1);
      const int64_t kept = std::min(neighbours, distances.size(1));
      nearest = std::get<0>(distances.topk(kept, 1, /*largest=*/false, /*sorted=*/true));
    }
    radii.push_back(nearest.select(1, neighbours - 1));
  }
  return torch::cat(radii);
}

torch::Tensor inside_any(const torch::Tensor& vectors, const torch::Tensor& centres,
                         const torch::Tensor& radii, int64_t block) {
  std::vector<torch::Tensor> inside;
  for (int64_t begin = 0; begin < vectors.size(0); begin += block) {
    const auto a = block_of(vectors, begin, block);
    auto found = torch::zeros({a.rows.size(0)}, vectors.options().dtype(torch::kBool));
    for (int64_t other = 0; other < centres.size(0); other += block) {
      const auto b = block_of(centres, other, block);
      const auto rounding = (a.norms.unsqueeze(1) + b.norms.unsqueeze(0)) * kRounding;
      const auto most = rounding + radii.narrow(0, other, b.rows.size(0));
      found.logical_or_((squared_distances(a, b) <= most).any(1));
    }
    inside.push_back(found);
  }
  return torch::cat(inside);
}

namespace {

/// Feature vectors as they come, on the device they come from: 8 KB an image.
class FeatureRows {
 public:
  void add(const torch::Tensor& rows) {
    parts_.push_back(rows);
    count_ += rows.size(0);
  }
  int64_t count() const { return count_; }
  /// [count, C]; not without any.
  torch::Tensor all() const { return torch::cat(parts_); }
  void clear() { *this = {}; }

  /// Gathers the features of all ranks, in the order of ranks.
  void join(Group& group) {
    if (group.alone()) return;
    const auto counts = torch::zeros({group.size()}, torch::kLong);
    counts[group.rank()] = count_;
    group.sum({counts});
    const auto before = counts.narrow(0, 0, group.rank()).sum().item<int64_t>();
    const auto whole = torch::zeros({counts.sum().item<int64_t>(), Inception::kFeatures});
    if (count_ > 0) whole.narrow(0, before, count_).copy_(all());
    group.sum({whole});
    parts_ = {whole};
    count_ = whole.size(0);
  }

 private:
  std::vector<torch::Tensor> parts_;
  int64_t count_ = 0;
};

enum class Share {
  precision,  ///< of reconstructions in the images' manifold
  recall,     ///< of images in the reconstructions' manifold
};

/// Keeps the features of all images, 8 KB each.
class PrecisionRecall : public Metric {
 public:
  PrecisionRecall(Share share, std::shared_ptr<InceptionFeatures> network, c10::Device device)
      : share_(share), network_(std::move(network)), device_(device) {}

  void add(const EvalBatch& batch) override {
    add(batch.images, images_);
    add(batch.reconstructions, reconstructions_);
  }
  std::vector<torch::Tensor> sums() override { return {}; }
  void reset() override {
    images_.clear();
    reconstructions_.clear();
  }
  void join(Group& group) override {
    images_.join(group);
    reconstructions_.join(group);
  }
  std::optional<double> value() const override;

 private:
  void add(const torch::Tensor& images, FeatureRows& to) {
    if (images.defined() && images.size(0) > 0) to.add(network_->of(images).pool);
  }

  Share share_;
  std::shared_ptr<InceptionFeatures> network_;
  c10::Device device_;
  FeatureRows images_, reconstructions_;
};

std::optional<double> PrecisionRecall::value() const {
  if (std::min(images_.count(), reconstructions_.count()) <= kManifoldNeighbours) {
    return std::nullopt;
  }
  const auto images = images_.all().to(device_), made = reconstructions_.all().to(device_);
  if (!(images.isfinite().all() & made.isfinite().all()).item<bool>()) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  const auto& centres = share_ == Share::precision ? images : made;
  const auto& judged = share_ == Share::precision ? made : images;
  log("{}: comparing {} with {} features", share_ == Share::precision ? "precision" : "recall",
      judged.size(0), centres.size(0));
  const auto inside = inside_any(judged, centres, squared_radii(centres));
  return inside.to(torch::kDouble).mean().item<double>();
}

MetricKind kind_of(Share share, const std::string& name, const std::string& title,
                   const std::string& what) {
  const auto summary = fmt::format("improved {}, k = {} by Inception's features: {}", name,
                                   kManifoldNeighbours, what);
  return {.name = name,
          .other_names = {},
          .summary = summary,
          .display = {.title = title, .chart = "Precision and recall", .axis = "", .unit = ""},
          .input = MetricInput::sets,
          .weights = {kInceptionWeights},
          .least_images = kManifoldNeighbours + 1,
          .choices =
              [summary](const Conventions& conventions) {
                return summary + ", " + inception_in_words(conventions);
              },
          .make =
              [share, name](const MetricOptions& options) {
                return std::make_unique<PrecisionRecall>(share, inception_features(name, options),
                                                         options.device);
              }};
}

}  // namespace

std::vector<MetricKind> precision_recall_kinds() {
  return {kind_of(Share::precision, "precision", "Precision", "share of samples near an image"),
          kind_of(Share::recall, "recall", "Recall", "share of images near a sample")};
}

}  // namespace nsvq
