#pragma once

#include "nsvq/metrics/metric.h"

namespace nsvq {

/// "ssim": structural similarity as scikit-image's structural_similarity has it by default (7x7
/// uniform window, sample covariance, K1 0.01, K2 0.03, windows inside the image only), averaged
/// over windows, channels and images. Throws UserError for images smaller than the window.
class Ssim : public Metric {
 public:
  Ssim();
  void add(const EvalBatch& batch) override;
  std::vector<torch::Tensor> sums() override { return {sums_}; }
  std::map<std::string, double> values() const override;

 private:
  torch::Tensor sums_;  // [2] fp64: sum of the images' similarities, images
};

}  // namespace nsvq
