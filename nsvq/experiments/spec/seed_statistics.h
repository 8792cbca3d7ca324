#pragma once

#include <optional>
#include <vector>

namespace nsvq {

/// NaN for no values.
double mean_of(const std::vector<double>& values);
/// Sample standard deviation; 0 for fewer than two values.
double deviation_of(const std::vector<double>& values);
double median_of(std::vector<double> values);

/// Spearman's rank correlation: the correlation of ranks, equal values having the mean of theirs.
/// nullopt for fewer than three pairs, or where one side is all equal.
std::optional<double> rank_correlation(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace nsvq
