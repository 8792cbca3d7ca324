#pragma once

#include "nsvq/metrics/grouped_mean.h"
#include "nsvq/metrics/metric.h"

namespace nsvq {

/// The mean over groups of images of the PSNR in dB of each group's mean squared error: with groups
/// of one image the usual mean, with one group of all the pooled PSNR, which reads lower. Equal
/// pixels would be infinite: the PSNR of a group is at most 100 dB.
class Psnr : public Metric {
 public:
  Psnr(PixelRule pixels, int64_t group);
  void add(const EvalBatch& batch) override;
  std::vector<torch::Tensor> sums() override { return {mean_.sums()}; }
  std::optional<double> value() const override { return mean_.value(); }

 private:
  PixelRule pixels_;
  GroupedMean mean_;
};

/// psnr and psnr_pooled.
std::vector<MetricKind> psnr_kinds();

}  // namespace nsvq
