#pragma once

#include <memory>

#include "nsvq/losses/lpips.h"
#include "nsvq/metrics/grouped_mean.h"
#include "nsvq/metrics/metric.h"

namespace nsvq {

/// The mean over images of their LPIPS distance to their reconstructions.
class LpipsMetric : public Metric {
 public:
  LpipsMetric(std::shared_ptr<Lpips> lpips, c10::Device device, PixelRule pixels);
  void add(const EvalBatch& batch) override;
  std::vector<torch::Tensor> sums() override { return {mean_.sums()}; }
  std::optional<double> value() const override { return mean_.value(); }

 private:
  std::shared_ptr<Lpips> lpips_;
  c10::Device device_;
  PixelRule pixels_;
  GroupedMean mean_;
};

/// One for each network.
std::vector<MetricKind> lpips_kinds();

}  // namespace nsvq
