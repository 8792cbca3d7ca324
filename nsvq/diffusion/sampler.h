#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nsvq/diffusion/noise_schedule.h"
#include "nsvq/settings/option.h"

namespace nsvq {

/// Settings of sampling; the defaults are the paper's.
struct SampleConfig {
  std::string sampler = "ddim";
  int64_t steps = 50;
  double eta = 0;
  std::string spacing = "trailing";
  std::string last = "one";
};

/// Values of sample.spacing and of sample.last.
inline const std::vector<std::string> kSpacings = {"trailing", "leading", "compvis"};
inline const std::vector<std::string> kLasts = {"one", "first"};

/// Rows sample.sampler, sample.steps and so on.
std::vector<Option> sample_options(SampleConfig& config);

/// A level of noise on the way from noise to data.
struct PathPoint {
  int64_t time;  ///< as the network is told it; -1 at the end
  double abar;

  double signal() const;
  double noise() const;
};

/// One step of a sampler, which is linear in all it knows: with x0 the data that the network sees
/// in x, and before it in the step before,
///   x <- sample x + data x0 + previous x0_before + fresh z,   z a new standard normal.
struct SamplerStep {
  PathPoint at;  ///< where x is before the step
  double sample = 0, data = 0, previous = 0, fresh = 0;
};

/// A member of the family; sampler.cpp has them all.
struct SamplerKind {
  std::string name;     ///< in recipes, sample.sampler
  std::string summary;  ///< in a line
  /// The steps along a path, one less than it has points.
  std::vector<SamplerStep> (*steps)(const std::vector<PathPoint>& path, const SampleConfig& config);
  bool takes_eta = false;  ///< sample.eta; others refuse one above 0
};

const std::vector<SamplerKind>& sampler_kinds();
/// Throws UserError naming the valid ones.
const SamplerKind& sampler_kind(const std::string& name);

/// The times that sample.steps visits, from noise to data, and the end.
std::vector<PathPoint> sampling_path(const NoiseSchedule& schedule, const SampleConfig& config);

/// The steps of the configured sampler, with `latest` those from the first such time on. Throws
/// UserError, naming the key, for settings that do not fit the schedule or the sampler.
std::vector<SamplerStep> plan_sampling(const NoiseSchedule& schedule, const SampleConfig& config,
                                       std::optional<int64_t> latest = {});

}  // namespace nsvq
