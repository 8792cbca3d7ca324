#pragma once

#include <torch/types.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "nsvq/nn/named_tensors.h"

namespace nsvq {

/// Values of a step to log, by name: losses, gradient norms. Scalar tensors on the device.
using Scalars = TensorMap;

/// Scalars as one tensor, so that one kernel handles all of them.
struct GatheredScalars {
  std::vector<std::string> names;
  torch::Tensor values;  ///< [names] fp64, on the device of the scalars
};

GatheredScalars gather_scalars(const Scalars& scalars);

/// "l1 0.2, vq 0.1" for messages.
std::string describe_scalars(const std::map<std::string, double>& scalars);

/// Means of named scalars over the steps that had them, summed on the device until they are asked
/// for, and the time since the last reset.
class Meter {
 public:
  /// Adds a step's scalars, unless `skip`, a boolean on their device, is true. From the second time
  /// on that these names come, it works in place, as a captured CUDA graph needs.
  void add(const GatheredScalars& scalars, const torch::Tensor& skip);
  void add_samples(int64_t samples) { samples_ += samples; }
  std::map<std::string, double> means() const;
  struct Total {
    double sum = 0, count = 0;  ///< count: of steps
  };
  /// By name, over all steps: which names come together depends on the kind of step.
  std::map<std::string, Total> totals() const;
  double seconds() const;
  double samples_per_second() const {
    return static_cast<double>(samples_) / std::max(seconds(), 1e-9);
  }
  void reset();

  /// Sums and counts, for checkpoints. The clock is not part of it: time and rate are those of this
  /// process.
  TensorMap state() const;
  /// Throws UserError for a tensor that is no sum and count, calling it `prefix` and its name.
  void load(const TensorMap& state, const std::string& prefix);

 private:
  /// Sums of one set of names.
  struct Sums {
    torch::Tensor values;  ///< [names] fp64
    torch::Tensor count;   ///< of steps, fp64
  };

  std::map<std::vector<std::string>, Sums> sums_;
  int64_t samples_ = 0;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace nsvq
