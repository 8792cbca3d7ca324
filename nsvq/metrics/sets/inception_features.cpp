#include "nsvq/metrics/sets/inception_features.h"

#include "nsvq/core/error.h"
#include "nsvq/core/precision.h"
#include "nsvq/metrics/sets/feature_extractor.h"
#include "nsvq/nn/features/feature_net.h"
#include "nsvq/nn/weights.h"

namespace nsvq {

void require_official(const std::string& metric, const std::string& weights) {
  const auto origin = weights_origin(weights);
  if (origin.official) return;
  throw UserError("{}: the stored {} ({}) are not the official values; remove {} and run `{}`",
                  metric, weights, origin.source, weights_path(weights).string(),
                  weights_kind(weights).command);
}

std::shared_ptr<InceptionFeatures> inception_features(const std::string& metric,
                                                      const MetricOptions& options) {
  if (options.inception) return options.inception;
  return std::make_shared<InceptionFeatures>(metric, options.device, options.conventions);
}

InceptionFeatures::InceptionFeatures(const std::string& metric, c10::Device device,
                                     const Conventions& conventions)
    : network_(std::make_shared<Inception>()), device_(device), conventions_(conventions) {
  require_official(metric, kInceptionWeights);
  load_parameters(*network_, load_weights(kInceptionWeights).tensors, "weights inception");
  network_->to(device);
  if (device.is_cpu()) network_->fold();
  use_fast_layout(*network_, device);
}

Inception::Outputs InceptionFeatures::of(const torch::Tensor& images) {
  for (const auto& [tensor, outputs] : known_) {
    if (tensor.is_same(images)) return outputs;
  }
  auto outputs = compute(images);
  if (remembers_) known_.emplace_back(images, outputs);
  return outputs;
}

Inception::Outputs InceptionFeatures::compute(const torch::Tensor& images) const {
  const torch::NoGradGuard no_grad;
  const Tf32Guard exact(Tf32Work::convolutions, false);
  const auto there = images.to(device_);
  if (conventions_.inception == InceptionResize::tensorflow) {
    const auto pixels = to_pixels(there, conventions_.network);
    return network_->outputs(Inception::tensorflow_input(pixels).contiguous());
  }
  const auto input = to_network_input(there, conventions_.network).contiguous();
  return network_->outputs(Inception::pytorch_input(input * 0.5 + 0.5));
}

void InceptionFeatures::remember() {
  forget();
  remembers_ = true;
}

void InceptionFeatures::forget() {
  known_.clear();
  remembers_ = false;
}

}  // namespace nsvq
