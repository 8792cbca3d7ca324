#include <algorithm>

#include "nsvq/core/lookup.h"
#include "nsvq/dist/group.h"
#include "nsvq/metrics/metric.h"

namespace nsvq {

void Metric::reset() {
  for (auto& sum : sums()) sum.zero_();
}

void Metric::join(Group& group) { group.sum(sums()); }

const std::vector<MetricKind>& metric_kinds() {
  static const std::vector<MetricKind> all = [] {
    std::vector<MetricKind> kinds;
    for (const auto& members : {
             psnr_kinds(),
             ssim_kinds(),
             lpips_kinds(),
             frechet_kinds(),
             inception_score_kinds(),
             precision_recall_kinds(),
             usage_kinds(),
         }) {
      kinds.insert(kinds.end(), members.begin(), members.end());
    }
    return kinds;
  }();
  return all;
}

const MetricKind* find_metric_kind(const std::string& name) {
  for (const auto& kind : metric_kinds()) {
    const auto& others = kind.other_names;
    if (kind.name == name || std::find(others.begin(), others.end(), name) != others.end()) {
      return &kind;
    }
  }
  return nullptr;
}

const MetricKind& metric_kind(const std::string& name) {
  if (const auto* kind = find_metric_kind(name)) return *kind;
  return find_named(metric_kinds(), "metric", name);
}

std::string format_figure(double value, const MetricDisplay& display) {
  return fmt::format("{:.{}f}", value * display.scale, display.decimals);
}

void check_pair(const EvalBatch& batch) {
  const auto& images = batch.images;
  const auto& reconstructions = batch.reconstructions;
  TORCH_CHECK(images.defined() && images.dim() == 4, "metrics: images must be [B, C, H, W]");
  TORCH_CHECK(reconstructions.defined() && reconstructions.sizes() == images.sizes(),
              "metrics: reconstructions must have the shape of the images, ", images.sizes());
}

}  // namespace nsvq
