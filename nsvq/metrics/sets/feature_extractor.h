#pragma once

#include <c10/core/Device.h>
#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "nsvq/metrics/metric.h"

namespace torch::nn {
class Module;
}

namespace nsvq {

/// Images to the vectors whose distribution a Fréchet distance compares.
struct FeatureExtractor {
  std::string name;
  int64_t channels;  ///< C
  /// Images [B, 3, H, W] in [-1, 1] on any device, clamped and rounded by the conventions, to
  /// [B, C] fp32, without gradients. Throws UserError for images too small for the network.
  std::function<torch::Tensor(const torch::Tensor& images)> features;
};

/// A member of the family.
struct FeatureExtractorKind {
  std::string name;  ///< the distance's: "fid" and "sfid" only for the network of FID
  std::string summary;
  int64_t channels;
  std::string weights;  ///< the file in the store of weights (nsvq/nn/weights.h)
};

const std::vector<FeatureExtractorKind>& feature_extractor_kinds();

/// With the weights of the store. Throws UserError saying what brings them when they are missing,
/// and, for FID's network, when they are not the official ones; other networks say that in the log.
FeatureExtractor make_feature_extractor(const std::string& name, const MetricOptions& options);

/// Gives a network of a metric channels-last kernels where that is faster: on a CPU whose
/// convolutions are oneDNN's. Activations follow them.
void use_fast_layout(torch::nn::Module& network, c10::Device device);

}  // namespace nsvq
