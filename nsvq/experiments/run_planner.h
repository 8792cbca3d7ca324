#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nsvq/experiments/plan.h"
#include "nsvq/experiments/resolve.h"

namespace nsvq {

/// Adds runs of one experiment at one scale to a plan: their settings, folders, and what they need.
class RunPlanner {
 public:
  /// `metrics` are measured of every row. All references live as long as this.
  RunPlanner(const Experiment& experiment, const PlanOptions& options,
             std::vector<std::string> metrics, Plan& plan);

  /// What the scale changes in a run.
  const RunAtScale& at_scale(const RunSpec& spec) const;
  const std::vector<int64_t>& seeds_of(const RunSpec& spec) const;

  /// A run after those it needs; `value` is that of the setting it varies. Returns its place in the
  /// plan, which may have it already.
  size_t add(const RunSpec& spec, const std::string& value, int64_t seed);

 private:
  /// Settings as they are, and as they count for the hash: there runs that are needed have their
  /// names in place of paths.
  struct Layers {
    SettingsLayers real, hashed;
    void add(const std::string& where, const std::vector<std::string>& words);
  };

  PlannedRun begin(const RunSpec& spec, const std::string& value, int64_t seed) const;
  Layers layers_of(const RunSpec& spec, PlannedRun& run);
  void add_needs(const RunSpec& spec, PlannedRun& run, Layers& layers);
  void add_images(Layers& layers) const;
  void plan_training(const RunSpec& spec, PlannedRun& run);
  std::string plan_pilots(const RunSpec& spec, const Layers& layers, PlannedRun& run);
  size_t add_pilot(const RunSpec& spec, const std::string& value, const std::string& choice);
  size_t add_file(const RunSpec& spec, int64_t seed, Sources images);
  Sources images_of(const std::string& kind, const Layers& layers) const;
  void fill_in(const Layers& layers, const std::string& also_hashed, PlannedRun& run) const;
  size_t add_once(PlannedRun run);

  std::string where(const std::string& key) const;
  std::string scale_key(const std::string& key) const;

  const Experiment& experiment_;
  const PlanOptions& options_;
  const ScaleSpec& scale_;
  std::vector<std::string> metrics_;
  Plan& plan_;
};

}  // namespace nsvq
