#pragma once

#include <filesystem>
#include <span>
#include <vector>

#include "nsvq/experiments/outcome/outcome.h"
#include "nsvq/experiments/plan/plan.h"
#include "nsvq/experiments/run/scheduler.h"

namespace nsvq {

/// Adds a job for each of the experiment's pictures: `nsvq compare` of the first seeds. The jobs
/// before are those of the plan's runs. The picture's name has a hash of the runs and its settings.
void add_picture_jobs(const Plan& plan, const PlannedExperiment& planned,
                      const std::filesystem::path& out, std::vector<Job>& jobs);

/// Adds the pictures that are there, and notes on those that failed. `results` begin with those of
/// the experiment's pictures, in the order of their jobs, which are removed from it.
void add_pictures(const Plan& plan, const std::filesystem::path& out,
                  std::span<const JobResult>& results, ExperimentOutcome& outcome);

}  // namespace nsvq
