#pragma once

#include <torch/types.h>

#include <cstdint>
#include <limits>
#include <optional>

namespace nsvq {

/// The mean over groups of consecutive images of a figure of each group. A group's figure is that
/// of the ratio between sums over its images; a last group of fewer images counts as much as any.
/// With several ranks each forms groups of its own, and their last ones are one.
class GroupedMean {
 public:
  /// One group of all images.
  static constexpr int64_t kAll = std::numeric_limits<int64_t>::max();

  /// `group` images make a group.
  GroupedMean(int64_t group, double (*figure)(double ratio));

  /// One image.
  void add(double numerator, double denominator);
  /// [5] fp64, to be summed over ranks in place.
  const torch::Tensor& sums() { return sums_; }
  std::optional<double> value() const;

 private:
  int64_t group_;
  double (*figure_)(double);
  torch::Tensor sums_;  // figures, groups; of the open group: numerator, denominator, images
};

}  // namespace nsvq
