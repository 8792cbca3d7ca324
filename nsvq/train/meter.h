#pragma once

#include <torch/types.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "nsvq/dist/group.h"
#include "nsvq/train/scalars.h"

namespace nsvq {

/// Means of named scalars over the steps that had them, kept on the device until they are asked
/// for, and the time since the last reset.
class Meter {
 public:
  /// Adds a step's, unless `bad`, a boolean on their device, says that it was not taken. Works in
  /// place from the second time on that these names come.
  void add(const GatheredScalars& scalars, const torch::Tensor& bad);
  void add_images(int64_t images) { images_ += images; }
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
  /// Of scalars that come together.
  struct Sums {
    torch::Tensor values;  ///< [names] fp64
    torch::Tensor count;   ///< of steps, fp64
  };
  struct Total {
    double sum = 0, count = 0;
  };
  /// By name: which ones come together depends on the phase.
  std::map<std::string, Total> totals() const;

  std::map<std::vector<std::string>, Sums> sums_;
  int64_t images_ = 0;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace nsvq
