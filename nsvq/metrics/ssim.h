#pragma once

#include "nsvq/metrics/grouped_mean.h"
#include "nsvq/metrics/metric.h"

namespace nsvq {

/// Structural similarity as scikit-image's structural_similarity has it by default (7x7 uniform
/// window, sample covariance, K1 0.01, K2 0.03, windows inside the image only), averaged over
/// windows and channels, then over groups of images and over these. Throws UserError for images
/// smaller than the window.
class Ssim : public Metric {
 public:
  explicit Ssim(const Conventions& conventions);
  void add(const EvalBatch& batch) override;
  std::vector<torch::Tensor> sums() override { return {mean_.sums()}; }
  std::optional<double> value() const override { return mean_.value(); }

 private:
  PixelRule pixels_;
  double range_;  // of values in 0..255
  GroupedMean mean_;
};

std::vector<MetricKind> ssim_kinds();

}  // namespace nsvq
