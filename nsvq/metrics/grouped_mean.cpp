#include "nsvq/metrics/grouped_mean.h"

namespace nsvq {

namespace {

enum Entry { kFigures, kGroups, kNumerator, kDenominator, kImages, kEntries };

}  // namespace

GroupedMean::GroupedMean(int64_t group, double (*figure)(double))
    : group_(group), figure_(figure), sums_(torch::zeros({kEntries}, torch::kDouble)) {}

void GroupedMean::add(const torch::Tensor& numerators, double denominator) {
  arriving_.push_back({HostCopy(numerators.to(torch::kDouble)), denominator});
  constexpr size_t most = 4;  // enough to be there by then
  receive_all_but(numerators.is_cpu() ? 0 : most);
}

void GroupedMean::receive_all_but(size_t left) const {
  for (; arriving_.size() > left; arriving_.pop_front()) {
    const auto numerators = arriving_.front().numerators.get();
    for (int64_t i = 0; i < numerators.size(0); ++i) {
      add_image(numerators.const_data_ptr<double>()[i], arriving_.front().denominator);
    }
  }
}

const torch::Tensor& GroupedMean::sums() {
  receive_all_but(0);
  return sums_;
}

void GroupedMean::add_image(double numerator, double denominator) const {
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
  receive_all_but(0);
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
