#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "nsvq/experiments/plan/plan.h"

namespace nsvq {

/// What is left to do for a run.
struct RunEstimate {
  std::optional<int64_t> steps = 0;  ///< training steps left; nullopt where images are missing
  std::optional<double> seconds;     ///< nullopt where no speed is known
  std::string state;                 ///< to do, begun, finished
  std::string by;                    ///< whose speed it is, in words; empty: none
};

/// Seconds of a training step that was timed for an estimate (run/reproduce.h), by speed_key.
using StepTimes = std::map<std::string, double>;

/// What the time of a step can depend on, as text: seeds, learning rates, budgets and the weights
/// and temperatures of quantizers' losses are left out.
std::string speed_key(const PlannedRun& run);

/// One run for each speed_key of which no run has logged steps: unfinished runs that train a
/// tokenizer in one process.
std::vector<size_t> runs_to_time(const Plan& plan);

/// Estimates per run of a plan; time from logged steps of the run itself, else of runs of its
/// speed_key, else from `timed`, else from the mean over runs of its kind and number of GPUs, in
/// proportion to pixels.
std::vector<RunEstimate> estimate_runs(const Plan& plan, const StepTimes& timed = {});

/// The plan as a table: runs, steps, time, and whose speed it is estimated by.
std::string plan_table(const Plan& plan, const StepTimes& timed = {});

}  // namespace nsvq
