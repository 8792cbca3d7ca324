#include "nsvq/metrics/lpips_metric.h"

#include <utility>

#include "nsvq/metrics/pixels.h"

namespace nsvq {

LpipsMetric::LpipsMetric(std::shared_ptr<Lpips> lpips, c10::Device device, PixelRule pixels)
    : lpips_(std::move(lpips)),
      device_(device),
      pixels_(pixels),
      mean_(/*group=*/1, [](double mean) { return mean; }) {}

void LpipsMetric::add(const EvalBatch& batch) {
  const torch::NoGradGuard no_grad;
  check_pair(batch);
  if (batch.images.size(0) == 0) return;
  const auto input = [this](const torch::Tensor& images) {
    return to_network_input(images.to(device_), pixels_).contiguous();
  };
  const auto distances = lpips_->forward(input(batch.images), input(batch.reconstructions)).cpu();
  for (int64_t i = 0; i < distances.size(0); ++i) mean_.add(distances[i].item<double>(), 1);
}

}  // namespace nsvq
