#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "nsvq/experiments/plan/plan.h"
#include "nsvq/experiments/plan/run_settings.h"

namespace nsvq {

/// Adds runs of one experiment at one scale to a plan: settings, folders and needs.
class RunPlanner {
 public:
  /// `metrics` are measured for every row. All references live as long as this.
  RunPlanner(const Experiment& experiment, const PlanOptions& options,
             std::vector<std::string> metrics, Plan& plan);

  const RunSettings& settings() const { return settings_; }

  /// Adds a run after those it needs, unless the plan has it; `value` is the value of the setting
  /// it varies. Returns its index in the plan.
  size_t add(const RunSpec& spec, const std::string& value, int64_t seed);

  /// Whether nothing is left to do for any of these runs.
  bool are_done(const std::vector<size_t>& runs) const;

 private:
  PlannedRun begin(const RunSpec& spec, const std::string& value, int64_t seed) const;
  RunLayers layers_of(const RunSpec& spec, PlannedRun& run);
  void add_needs(const RunSpec& spec, PlannedRun& run, RunLayers& layers);
  void plan_training(const RunSpec& spec, PlannedRun& run);
  std::string plan_pilots(const RunSpec& spec, const RunLayers& layers, PlannedRun& run);
  size_t add_pilot(const RunSpec& spec, const std::string& value, const std::string& choice);
  size_t add_file(const RunSpec& spec, int64_t seed, Sources images);
  void fill_in(const RunLayers& layers, const std::string& also_hashed, PlannedRun& run) const;
  size_t add_once(PlannedRun run);

  const Experiment& experiment_;
  std::filesystem::path out_;
  RunSettings settings_;
  std::vector<std::string> metrics_;
  Plan& plan_;
  /// Results of add(): runs that many need are planned once.
  std::map<std::tuple<const RunSpec*, std::string, int64_t>, size_t> added_;
};

}  // namespace nsvq
