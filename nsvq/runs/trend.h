#pragma once

#include <string>
#include <utility>
#include <vector>

namespace nsvq {

/// What the numbers of a trend are, which says how they become dB, in which gains are compared.
enum class TrendOf { decibels, absolute_error, squared_error };

/// A figure over the steps of a run, whose gains are what training is for.
struct Trend {
  std::string what;                               ///< "PSNR", "the training error"
  TrendOf of = TrendOf::decibels;                 ///< PSNR rises, errors fall
  std::vector<std::pair<double, double>> points;  ///< step, value
};

/// The gain in dB for twice the steps, from the last evaluation before the last `share` of the run
/// to the last of all. NaN where there is none before.
double gain_of_evaluations(const Trend& trend, double share);

/// The gain in dB from the mean over the second quarter of a run of `steps` to the mean over its
/// second half, which is of twice the steps. NaN where one has no points.
double gain_of_steps(const Trend& trend, double steps);

/// "PSNR still rises, by 1.2 dB for twice the steps", "the training error still falls, by 13 % for
/// twice the steps".
std::string gain_in_words(const Trend& trend, double gain);

}  // namespace nsvq
