#include "nsvq/metrics/feature_extractor.h"

#include <ATen/Context.h>

#include <algorithm>
#include <memory>

#include "nsvq/core/log.h"
#include "nsvq/core/lookup.h"
#include "nsvq/nn/features/feature_net.h"
#include "nsvq/nn/features/inception.h"
#include "nsvq/nn/layers.h"
#include "nsvq/nn/weights.h"

namespace nsvq {

namespace {

using Features = std::function<torch::Tensor(const torch::Tensor&)>;

const FeatureExtractorKind& extractor_kind(const std::string& name) {
  return find_named(feature_extractor_kinds(), "Fréchet distance", name);
}

/// FID is defined by one set of weights: different ones would give a number of a different meaning.
void check_official(const FeatureExtractorKind& kind, const Weights& weights) {
  if (weights.official) return;
  if (kind.name == "fid") {
    throw UserError("fid: the stored {} ({}) are not the official values; remove {} and run `{}`",
                    kind.weights, weights.source, weights_path(kind.weights).string(),
                    weights_kind(kind.weights).command);
  }
  log("{}: the stored {} ({}) are not the official values; distances differ from theirs", kind.name,
      kind.weights, weights.source);
}

Features inception_features(const Weights& weights, c10::Device device) {
  const auto net = std::make_shared<Inception>();
  load_parameters(*net, weights.tensors, "weights inception");
  net->to(device);
  if (device.is_cpu()) net->fold();
  use_fast_layout(*net, device);
  return [net](const torch::Tensor& images) { return net->forward(images * 0.5 + 0.5); };
}

const FeatureNetKind& net_with_weights(const std::string& weights) {
  const auto& kinds = feature_net_kinds();
  const auto found =
      std::find_if(kinds.begin(), kinds.end(), [&](auto& kind) { return kind.weights == weights; });
  TORCH_INTERNAL_ASSERT(found != kinds.end());
  return *found;
}

Features last_activation(const FeatureExtractorKind& kind, const Weights& weights,
                         c10::Device device) {
  const auto& net_kind = net_with_weights(kind.weights);
  const auto net = net_kind.make();
  load_parameters(*net, weights.tensors, "weights " + kind.weights);
  net->to(device);
  use_fast_layout(*net, device);
  const auto shift = per_channel(kImageShift, device), scale = per_channel(kImageScale, device);
  return [=, name = kind.name, least = net_kind.least_size](const torch::Tensor& images) {
    if (std::min(images.size(2), images.size(3)) < least) {
      throw UserError("{} needs images of at least {} x {} pixels, got {} x {}", name, least, least,
                      images.size(2), images.size(3));
    }
    return net->features((images - shift) / scale).back().mean({2, 3});
  };
}

}  // namespace

void use_fast_layout(torch::nn::Module& network, c10::Device device) {
  if (device.is_cpu() && at::globalContext().userEnabledMkldnn()) make_channels_last(network);
}

const std::vector<FeatureExtractorKind>& feature_extractor_kinds() {
  static const std::vector<FeatureExtractorKind> kinds = {
      {"fid", "Fréchet Inception distance, resized (bilinear, 299x299) as in pytorch-fid",
       Inception::kFeatures, "inception"},
      {"fd-vgg16", "Fréchet distance of the mean of VGG16's last activation", 512, "vgg16"},
      {"fd-alexnet", "Fréchet distance of the mean of AlexNet's last activation", 256, "alexnet"},
      {"fd-squeezenet1_1", "Fréchet distance of the mean of SqueezeNet 1.1's last activation", 512,
       "squeezenet1_1"},
  };
  return kinds;
}

FeatureExtractor make_feature_extractor(const std::string& name, c10::Device device) {
  const auto& kind = extractor_kind(name);
  const auto weights = load_weights(kind.weights);
  check_official(kind, weights);
  const auto network =
      name == "fid" ? inception_features(weights, device) : last_activation(kind, weights, device);
  const auto features = [network, device, name](const torch::Tensor& images) {
    const torch::NoGradGuard no_grad;
    TORCH_CHECK(images.dim() == 4 && images.size(1) == 3, name, ": needs images [B, 3, H, W], got ",
                images.sizes());
    return network(images.to(device, torch::kFloat));
  };
  return {kind.name, kind.channels, features};
}

}  // namespace nsvq
