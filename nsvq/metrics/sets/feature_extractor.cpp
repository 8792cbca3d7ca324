#include "nsvq/metrics/sets/feature_extractor.h"

#include <ATen/Context.h>

#include <algorithm>
#include <memory>

#include "nsvq/core/log.h"
#include "nsvq/core/lookup.h"
#include "nsvq/core/precision.h"
#include "nsvq/metrics/sets/inception_features.h"
#include "nsvq/nn/features/feature_net.h"
#include "nsvq/nn/layers.h"
#include "nsvq/nn/weights.h"

namespace nsvq {

namespace {

const FeatureExtractorKind& extractor_kind(const std::string& name) {
  return find_named(feature_extractor_kinds(), "Fréchet distance", name);
}

/// FID and sFID differ in the output that they take.
FeatureExtractor inception_extractor(const FeatureExtractorKind& kind,
                                     const MetricOptions& options) {
  const auto network = inception_features(kind.name, options);
  const bool spatial = kind.channels == Inception::kSpatialFeatures;
  return {kind.name, kind.channels, [network, spatial](const torch::Tensor& images) {
            const auto outputs = network->of(images);
            return spatial ? outputs.spatial : outputs.pool;
          }};
}

const FeatureNetKind& net_with_weights(const std::string& weights) {
  const auto& kinds = feature_net_kinds();
  const auto found =
      std::find_if(kinds.begin(), kinds.end(), [&](auto& kind) { return kind.weights == weights; });
  TORCH_INTERNAL_ASSERT(found != kinds.end());
  return *found;
}

FeatureExtractor last_activation(const FeatureExtractorKind& kind, const MetricOptions& options) {
  const auto weights = load_weights(kind.weights);
  if (!weights.official) {
    log("{}: the stored {} ({}) are not the official values; distances differ from theirs",
        kind.name, kind.weights, weights.source);
  }
  const auto& net_kind = net_with_weights(kind.weights);
  const auto net = net_kind.make();
  const auto device = options.device;
  load_parameters(*net, weights.tensors, "weights " + kind.weights);
  net->to(device);
  use_fast_layout(*net, device);
  const auto shift = per_channel(kImageShift, device), scale = per_channel(kImageScale, device);
  return {kind.name, kind.channels,
          [=, name = kind.name, least = net_kind.least_size,
           rule = options.conventions.network](const torch::Tensor& images) {
            if (std::min(images.size(2), images.size(3)) < least) {
              throw UserError("{} needs images of at least {} x {} pixels, got {} x {}", name,
                              least, least, images.size(2), images.size(3));
            }
            const Tf32Guard exact(Tf32Work::convolutions, false);
            const auto input = to_network_input(images.to(device), rule).contiguous();
            return net->features((input - shift) / scale).back().mean({2, 3});
          }};
}

}  // namespace

void use_fast_layout(torch::nn::Module& network, c10::Device device) {
  if (device.is_cpu() && at::globalContext().userEnabledMkldnn()) make_channels_last(network);
}

const std::vector<FeatureExtractorKind>& feature_extractor_kinds() {
  static const std::vector<FeatureExtractorKind> kinds = {
      {"fid", "Fréchet Inception distance", Inception::kFeatures, kInceptionWeights},
      {"sfid", "Fréchet distance of Inception's spatial features, mixed_6/conv as in ADM",
       Inception::kSpatialFeatures, kInceptionWeights},
      {"fd-vgg16", "Fréchet distance of the mean of VGG16's last activation", 512, "vgg16"},
      {"fd-alexnet", "Fréchet distance of the mean of AlexNet's last activation", 256, "alexnet"},
      {"fd-squeezenet1_1", "Fréchet distance of the mean of SqueezeNet 1.1's last activation", 512,
       "squeezenet1_1"},
  };
  return kinds;
}

FeatureExtractor make_feature_extractor(const std::string& name, const MetricOptions& options) {
  const auto& kind = extractor_kind(name);
  auto extractor = kind.weights == kInceptionWeights ? inception_extractor(kind, options)
                                                     : last_activation(kind, options);
  extractor.features = [network = extractor.features, name](const torch::Tensor& images) {
    const torch::NoGradGuard no_grad;
    TORCH_CHECK(images.dim() == 4 && images.size(1) == 3, name, ": needs images [B, 3, H, W], got ",
                images.sizes());
    return network(images);
  };
  return extractor;
}

}  // namespace nsvq
