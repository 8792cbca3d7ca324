#include <memory>
#include <utility>

#include "nsvq/core/precision.h"
#include "nsvq/losses/lpips.h"
#include "nsvq/metrics/grouped_mean.h"
#include "nsvq/metrics/metric.h"
#include "nsvq/metrics/sets/feature_extractor.h"

namespace nsvq {

namespace {

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

LpipsMetric::LpipsMetric(std::shared_ptr<Lpips> lpips, c10::Device device, PixelRule pixels)
    : lpips_(std::move(lpips)),
      device_(device),
      pixels_(pixels),
      mean_(/*group=*/1, [](double mean) { return mean; }) {}

void LpipsMetric::add(const EvalBatch& batch) {
  const torch::NoGradGuard no_grad;
  // TF32, PyTorch's default for convolutions on a GPU, where the lpips package runs: the mean moves
  // by some 1e-4 of it (docs/evaluation.md), and in fp32 LPIPS would be slower than all else.
  const Tf32Guard tf32(Tf32Work::convolutions, true);
  check_pair(batch);
  if (batch.images.size(0) == 0) return;
  const auto input = [this](const torch::Tensor& images) {
    return to_network_input(images.to(device_), pixels_).contiguous();
  };
  mean_.add(lpips_->forward(input(batch.images), input(batch.reconstructions)), 1);
}

}  // namespace

std::vector<MetricKind> lpips_kinds() {
  std::vector<MetricKind> kinds;
  for (const auto& name : lpips_net_names()) {
    const auto& net = feature_net_kind(name);
    MetricKind kind = {.name = "lpips-" + net.name,
                       .other_names = {},
                       .summary = "LPIPS 0.1 on " + net.weights + ", mean over images",
                       .display = {.title = "LPIPS (" + net.name + ")",
                                   .chart = "LPIPS",
                                   .axis = "",
                                   .unit = "",
                                   .better = Better::lower},
                       .input = MetricInput::pairs,
                       .per_image = true,
                       .weights = {net.weights, "lpips-" + net.name},
                       .choices =
                           [](const Conventions& c) {
                             return "LPIPS 0.1, mean over images; " + pixels_in_words(c.network);
                           },
                       .make =
                           [name = net.name](const MetricOptions& options) {
                             const auto lpips = make_lpips(name, options.device);
                             use_fast_layout(*lpips, options.device);
                             return std::make_unique<LpipsMetric>(lpips, options.device,
                                                                  options.conventions.network);
                           }};
    if (net.name == "vgg") kind.other_names = {"lpips"};
    kinds.push_back(std::move(kind));
  }
  return kinds;
}

}  // namespace nsvq
