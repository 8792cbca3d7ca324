#pragma once

#include "nsvq/metrics/feature_extractor.h"
#include "nsvq/metrics/frechet.h"
#include "nsvq/metrics/metric.h"

namespace nsvq {

/// The Fréchet distance between images and reconstructions as sets: a batch may have either alone.
/// nullopt below two of each. A `reference` replaces the images, which are then not read; where its
/// images have another size than the reconstructions, a line in the log says so.
class FrechetMetric : public Metric {
 public:
  /// Throws UserError where the reference has another number of features.
  FrechetMetric(FeatureExtractor extractor, c10::Device device, PixelRule pixels,
                std::shared_ptr<const Gaussian> reference = nullptr);
  void add(const EvalBatch& batch) override;
  std::vector<torch::Tensor> sums() override;
  std::optional<double> value() const override;

  /// Statistics of the images so far. Throws UserError below two.
  Gaussian images() const { return images_.gaussian(); }

 private:
  void add(const torch::Tensor& images, FrechetStatistics& to);
  void note_other_size(const torch::Tensor& reconstructions);

  FeatureExtractor extractor_;
  c10::Device device_;
  PixelRule pixels_;
  std::shared_ptr<const Gaussian> reference_;
  FrechetStatistics images_, reconstructions_;
  bool noted_ = false;  // the line about a different size was written
};

}  // namespace nsvq
