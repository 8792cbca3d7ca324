#pragma once

#include <torch/types.h>

#include <chrono>
#include <map>
#include <string>

#include "nsvq/dist/group.h"

namespace nsvq {

/// Means of named scalars over steps, kept on the device until they are asked for, and the time
/// since the last reset.
class Meter {
 public:
  void add(const std::map<std::string, torch::Tensor>& scalars, int64_t images);
  /// Means over all ranks.
  std::map<std::string, double> means(Group& group) const;
  double seconds() const;
  double images_per_second() const { return images_ / std::max(seconds(), 1e-9); }
  void reset();

 private:
  std::map<std::string, torch::Tensor> sums_;
  int64_t steps_ = 0, images_ = 0;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace nsvq
