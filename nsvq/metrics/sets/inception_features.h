#pragma once

#include <c10/core/Device.h>
#include <torch/types.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nsvq/metrics/metric.h"
#include "nsvq/nn/features/inception.h"

namespace nsvq {

/// FID's network as metrics use it. The metrics of one set share it: while a batch is remembered,
/// each of its tensors passes the network once, however many metrics ask.
class InceptionFeatures {
 public:
  /// Throws UserError, beginning with `metric`, where the stored weights are not the official ones,
  /// and for missing weights.
  InceptionFeatures(const std::string& metric, c10::Device device, const Conventions& conventions);

  /// Takes images [B, 3, H, W] in [-1, 1] on any device. Always in fp32: statistics are stored and
  /// compared with those of other runs.
  Inception::Outputs of(const torch::Tensor& images);

  /// Until `forget`, no tensor that was given may change.
  void remember();
  void forget();

 private:
  Inception::Outputs compute(const torch::Tensor& images) const;

  std::shared_ptr<Inception> network_;
  c10::Device device_;
  Conventions conventions_;
  bool remembers_ = false;
  std::vector<std::pair<torch::Tensor, Inception::Outputs>> known_;
};

/// The network of the options, or a new one where they have none; `metric` is named in errors.
std::shared_ptr<InceptionFeatures> inception_features(const std::string& metric,
                                                      const MetricOptions& options);

/// Its file in the store of weights.
constexpr auto kInceptionWeights = "inception";

/// Throws UserError unless weights of the store are the published values: `metric` is defined by
/// them, and other ones would give a number of a different meaning.
void require_official(const std::string& metric, const std::string& weights);

}  // namespace nsvq
