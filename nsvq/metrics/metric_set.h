#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "nsvq/metrics/metric.h"

namespace nsvq {

/// Several metrics over the same batches.
class MetricSet {
 public:
  /// Members of the registry by name, each once. Throws UserError for an unknown name, missing
  /// weights, or a metric of tokens where there are none (`options.codes` is 0).
  MetricSet(const std::vector<std::string>& names, const MetricOptions& options);

  void add(const EvalBatch& batch);
  /// Of all metrics, to be summed over ranks in place.
  std::vector<torch::Tensor> sums();
  /// Forgets all batches. Networks stay loaded.
  void reset();
  /// By name; those that cannot tell are left out.
  std::map<std::string, double> values() const;

 private:
  std::map<std::string, std::unique_ptr<Metric>> metrics_;
};

/// "psnr,ssim" to names as the registry has them, each once. Throws UserError for an unknown one.
std::vector<std::string> parse_metric_names(const std::string& list);

}  // namespace nsvq
