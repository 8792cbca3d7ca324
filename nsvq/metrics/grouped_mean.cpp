#include "nsvq/metrics/grouped_mean.h"

namespace nsvq {

namespace {

enum Place { kFigures, kGroups, kNumerator, kDenominator, kImages, kPlaces };

}  // namespace

GroupedMean::GroupedMean(int64_t group, double (*figure)(double))
    : group_(group), figure_(figure), sums_(torch::zeros({kPlaces}, torch::kDouble)) {}

void GroupedMean::add(double numerator, double denominator) {
  auto* sums = sums_.data_ptr<double>();
  sums[kNumerator] += numerator;
  sums[kDenominator] += denominator;
  sums[kImages] += 1;
  if (sums[kImages] < static_cast<double>(group_)) return;
  sums[kFigures] += figure_(sums[kNumerator] / sums[kDenominator]);
  sums[kGroups] += 1;
  sums[kNumerator] = sums[kDenominator] = sums[kImages] = 0;
}

std::optional<double> GroupedMean::value() const {
  const auto* sums = sums_.const_data_ptr<double>();
  double figures = sums[kFigures], groups = sums[kGroups];
  if (sums[kImages] > 0) {
    figures += figure_(sums[kNumerator] / sums[kDenominator]);
    groups += 1;
  }
  if (groups == 0) return std::nullopt;
  return figures / groups;
}

}  // namespace nsvq
