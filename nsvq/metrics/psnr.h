#pragma once

#include "nsvq/metrics/metric.h"

namespace nsvq {

/// "psnr": the mean over images of each image's PSNR in dB. "psnr_pooled": the PSNR of the mean
/// squared error over everything, which reads lower. Equal pixels would be infinite: both are
/// capped at 100 dB, for each image and for the pool.
class Psnr : public Metric {
 public:
  Psnr();
  void add(const EvalBatch& batch) override;
  std::vector<torch::Tensor> sums() override { return {sums_}; }
  std::map<std::string, double> values() const override;

 private:
  torch::Tensor sums_;  // [4] fp64: dB, images, squared error, squared error's element count
};

}  // namespace nsvq
