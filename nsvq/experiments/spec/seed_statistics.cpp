#include "nsvq/experiments/spec/seed_statistics.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

namespace nsvq {

namespace {

std::vector<double> ranks_of(const std::vector<double>& values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (size_t first = 0; first < order.size();) {
    size_t end = first + 1;
    while (end < order.size() && values[order[end]] == values[order[first]]) ++end;
    const double rank = static_cast<double>(first + end + 1) / 2;  // ranks first + 1 to end
    for (; first < end; ++first) ranks[order[first]] = rank;
  }
  return ranks;
}

}  // namespace

double mean_of(const std::vector<double>& values) {
  if (values.empty()) return NAN;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double deviation_of(const std::vector<double>& values) {
  if (values.size() < 2) return 0;
  const double mean = mean_of(values);
  double sum = 0;
  for (const double value : values) sum += (value - mean) * (value - mean);
  return std::sqrt(sum / static_cast<double>(values.size() - 1));
}

double median_of(std::vector<double> values) {
  if (values.empty()) return NAN;
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
}

std::optional<double> rank_correlation(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size() || a.size() < 3) return std::nullopt;
  const auto left = ranks_of(a), right = ranks_of(b);
  const double middle = static_cast<double>(a.size() + 1) / 2;
  double both = 0, first = 0, second = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    both += (left[i] - middle) * (right[i] - middle);
    first += (left[i] - middle) * (left[i] - middle);
    second += (right[i] - middle) * (right[i] - middle);
  }
  if (first == 0 || second == 0) return std::nullopt;
  return both / std::sqrt(first * second);
}

}  // namespace nsvq
