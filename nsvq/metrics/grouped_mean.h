#pragma once

#include <torch/types.h>

#include <cstdint>
#include <deque>
#include <limits>
#include <optional>

#include "nsvq/core/device.h"

namespace nsvq {

/// The mean over groups of consecutive images of a figure of each group: `figure` of the ratio of
/// sums over its images. A last group of fewer images counts as much as any. Each rank forms groups
/// of its own; their last, short groups are joined into one.
class GroupedMean {
 public:
  /// One group of all images.
  static constexpr int64_t kAll = std::numeric_limits<int64_t>::max();

  /// `group` images make a group.
  GroupedMean(int64_t group, double (*figure)(double ratio));

  /// Images with numerators [B], fp32 or fp64 on any device, and the same denominator. A GPU is not
  /// waited for: a few batches later their figures have arrived.
  void add(const torch::Tensor& numerators, double denominator);
  /// [5] fp64, to be summed over ranks in place.
  const torch::Tensor& sums();
  std::optional<double> value() const;

 private:
  struct Arriving {
    HostCopy numerators;
    double denominator;
  };
  void receive_all_but(size_t left) const;
  void add_image(double numerator, double denominator) const;

  int64_t group_;
  double (*figure_)(double);
  mutable std::deque<Arriving> arriving_;
  torch::Tensor sums_;  // figures, groups; of the open group: numerator, denominator, images
};

}  // namespace nsvq
