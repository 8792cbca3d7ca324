#pragma once

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace nsvq {

/// One batch as an evaluation sees it.
struct EvalBatch {
  torch::Tensor images;           ///< [B, 3, H, W] in [-1, 1]
  torch::Tensor reconstructions;  ///< the same shape
  torch::Tensor indices;          ///< [B, h, w] int64
};

/// A figure gathered over batches.
class Metric {
 public:
  virtual ~Metric() = default;

  /// Tensors of the batch may be on any device. A batch without images adds nothing.
  virtual void add(const EvalBatch& batch) = 0;
  /// Everything gathered so far, as CPU tensors to be summed over ranks in place: they are the
  /// metric's own state, and their shapes do not depend on what was added.
  virtual std::vector<torch::Tensor> sums() = 0;
  /// By name, in SI-free plain units: {"psnr": 25.2}. Empty before the first batch; NaN once a NaN
  /// was added.
  virtual std::map<std::string, double> values() const = 0;
};

/// A member of the family: its name, a line about it, and how to make one for a codebook of `codes`
/// codes.
struct MetricKind {
  std::string name;
  std::string summary;
  std::function<std::unique_ptr<Metric>(int64_t codes)> make;
};

/// All members, in the order in which reports list them.
const std::vector<MetricKind>& metric_kinds();

}  // namespace nsvq
