#pragma once

#include <torch/types.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <string>

#include "nsvq/dist/group.h"

namespace nsvq {

/// Means of named scalars over the steps that had them, kept on the device until they are asked
/// for, and the time since the last reset.
class Meter {
 public:
  void add(const std::map<std::string, torch::Tensor>& scalars, int64_t images);
  /// Means over all ranks.
  std::map<std::string, double> means(Group& group) const;
  double seconds() const;
  double images_per_second() const { return images_ / std::max(seconds(), 1e-9); }
  void reset();

  /// Sums and counts, for checkpoints. The clock is not part of it: time and rate are those of this
  /// process.
  std::map<std::string, torch::Tensor> state() const;
  void load(const std::map<std::string, torch::Tensor>& state);

 private:
  std::map<std::string, torch::Tensor> sums_;
  std::map<std::string, int64_t> counts_;
  int64_t images_ = 0;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace nsvq
