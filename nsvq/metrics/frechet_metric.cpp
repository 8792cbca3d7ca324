#include "nsvq/metrics/frechet_metric.h"

#include <utility>

#include "nsvq/metrics/pixels.h"

namespace nsvq {

FrechetMetric::FrechetMetric(FeatureExtractor extractor, c10::Device device, PixelRule pixels)
    : extractor_(std::move(extractor)),
      device_(device),
      pixels_(pixels),
      images_(extractor_.channels),
      reconstructions_(extractor_.channels) {}

void FrechetMetric::add(const EvalBatch& batch) {
  add(batch.images, images_);
  add(batch.reconstructions, reconstructions_);
}

void FrechetMetric::add(const torch::Tensor& images, FrechetStatistics& to) {
  if (!images.defined() || images.size(0) == 0) return;
  to.add(extractor_.features(to_network_input(images.to(device_), pixels_).contiguous()));
}

std::vector<torch::Tensor> FrechetMetric::sums() {
  auto all = images_.sums();
  for (auto& sum : reconstructions_.sums()) all.push_back(sum);
  return all;
}

std::optional<double> FrechetMetric::value() const {
  if (images_.count() < 2 || reconstructions_.count() < 2) return std::nullopt;
  return frechet_distance(images_, reconstructions_);
}

}  // namespace nsvq
