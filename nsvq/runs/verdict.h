#pragma once

#include <filesystem>
#include <string>

#include "nsvq/recipe/alarm.h"
#include "nsvq/runs/log.h"

namespace nsvq {

// The thresholds of a verdict. docs/runs.md states them.

/// A run is undertrained where twice the steps would add more than this to its PSNR, in dB, by how
/// it rose over the last kLastPart of the steps.
inline constexpr double kStillRising = 0.3;
inline constexpr double kLastPart = 0.2;
/// Reconstructions are worse than a grey picture where their PSNR is below its PSNR by more dB.
inline constexpr double kWorseThanGrey = 0.5;
/// The PSNR in dB that a picture of medium grey has at least, for logs without a better figure.
inline constexpr double kLeastGrey = 6.02;
/// After fewer steps no run need be better than a grey picture.
inline constexpr double kFewSteps = 20;
/// Without PSNR (latent diffusion) training diverges where its loss is so many times the first one.
inline constexpr double kGrownLoss = 2;
/// A discriminator with a lower loss tells all reconstructions from images.
inline constexpr double kDiscriminatorWins = 0.05;

/// How a run went, by what it wrote down.
struct Verdict {
  std::string word;  ///< fine, undertrained, collapsed or diverged; empty: there is no verdict
  std::string text;  ///< the word, why, what else holds, and what to try, on one line
};

/// By a run's log alone, also of versions that wrote less. A run that has not `finished` has a
/// verdict only if numbers that were not finite ended it. `least_used` is alarm.utilisation.
Verdict verdict_of(const RunLog& log, bool finished, double least_used = AlarmConfig{}.utilisation);

/// By the log and the settings in a run's folder.
Verdict verdict_of_run(const std::filesystem::path& run, const RunLog& log, bool finished);
/// Reads the log too, of a long one only some of the steps' lines; no verdict where it cannot be
/// read.
Verdict verdict_of_run(const std::filesystem::path& run, bool finished);

/// The sign of the alarm that is recorded where numbers that are not finite end a run.
inline constexpr auto kNonfiniteSign = "nonfinite";

}  // namespace nsvq
