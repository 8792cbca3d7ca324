#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nsvq/settings/option.h"

namespace nsvq {

/// Settings of a noise schedule; the defaults are the paper's.
struct NoiseConfig {
  std::string schedule = "linear";
  int64_t times = 1000;
  double beta_start = 1e-4;
  double beta_end = 2e-2;
};

/// Rows diffusion.schedule, diffusion.times and so on.
std::vector<Option> noise_options(NoiseConfig& config);

/// A member of the family: the share of variance that each time adds, in fp64.
struct NoiseScheduleKind {
  std::string name;     ///< in recipes, diffusion.schedule
  std::string summary;  ///< in a line
  std::vector<double> (*betas)(const NoiseConfig&);
};

const std::vector<NoiseScheduleKind>& noise_schedule_kinds();

/// x_t = sqrt(abar_t) x0 + sqrt(1 - abar_t) eps for times t from 0, as the network gets them.
struct NoiseSchedule {
  std::vector<double> abar;  ///< falling, in (0, 1)

  int64_t times() const { return std::ssize(abar); }
};

/// Throws UserError naming the key, also for settings that add no noise or leave no signal.
NoiseSchedule make_noise_schedule(const NoiseConfig& config);

/// `count` numbers from `first` to `last`, both included; `first` if count is 1.
std::vector<double> even_steps(double first, double last, int64_t count);

}  // namespace nsvq
