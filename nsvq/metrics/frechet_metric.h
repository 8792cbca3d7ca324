#pragma once

#include "nsvq/metrics/feature_extractor.h"
#include "nsvq/metrics/frechet.h"
#include "nsvq/metrics/metric.h"

namespace nsvq {

/// The Fréchet distance between images and reconstructions as sets: a batch may have either alone.
/// Nothing below two of each.
class FrechetMetric : public Metric {
 public:
  FrechetMetric(FeatureExtractor extractor, c10::Device device, PixelRule pixels);
  void add(const EvalBatch& batch) override;
  std::vector<torch::Tensor> sums() override;
  std::optional<double> value() const override;

 private:
  void add(const torch::Tensor& images, FrechetStatistics& to);

  FeatureExtractor extractor_;
  c10::Device device_;
  PixelRule pixels_;
  FrechetStatistics images_, reconstructions_;
};

}  // namespace nsvq
