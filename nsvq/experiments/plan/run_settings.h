#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "nsvq/experiments/plan/plan.h"
#include "nsvq/experiments/spec/experiment.h"
#include "nsvq/nn/features/feature_net.h"
#include "nsvq/recipe/run_config.h"
#include "nsvq/settings/sources.h"

namespace nsvq {

/// A recipe, or a list of key=value with where it is from.
struct SettingsLayer {
  std::string recipe, where;
  std::vector<std::string> words;
};

/// Settings in order: a later layer overrides the earlier ones.
struct SettingsLayers {
  std::string name;  ///< for messages about all of them together
  std::vector<SettingsLayer> all;
  void add_recipes(const std::vector<std::string>& paths);
  void add(const std::string& where, const std::vector<std::string>& words);
};

/// Complete settings of a run.
struct ResolvedSettings {
  std::string yaml;     ///< all settings, as a recipe
  std::string essence;  ///< settings that differ from the defaults; their hash names the run
  RunConfig run;        ///< sections of every run. Its sources may be commands only where the
                        ///< user's own files or words name them
};

/// Settings of a run that trains something (`kind`, of run_spec_kinds()). Throws UserError.
ResolvedSettings resolve_settings(const std::string& kind, const SettingsLayers& layers);

/// Whether a setting is part of the essence: those of logging, threads and checkpoints are not.
bool is_essential(std::string_view key);

/// The first `digits` hexadecimal digits of a text's SHA-256.
std::string short_hash(const std::string& text, size_t digits = 10);

/// Settings as they are used, and as they are hashed: with names of needed runs instead of paths.
struct RunLayers {
  SettingsLayers real, hashed;
  void add_recipes(const std::vector<std::string>& paths);
  void add(const std::string& where, const std::vector<std::string>& words);
};

/// Settings of runs by an experiment's file, one of its scales and the command line.
class RunSettings {
 public:
  /// All references live as long as this.
  RunSettings(const Experiment& experiment, const PlanOptions& options);

  const ScaleSpec& scale() const { return scale_; }
  /// What the scale changes in a run.
  const RunAtScale& at_scale(const RunSpec& spec) const;
  const std::vector<int64_t>& seeds_of(const RunSpec& spec) const;
  /// The first seed that the experiment's file names, so that more seeds of a row need no more
  /// pilots.
  int64_t pilot_seed(const RunSpec& spec) const { return own_seeds(spec).front(); }

  /// Layers of a run that is trained, without the paths of those that it needs.
  RunLayers layers_of(const RunSpec& spec, const std::string& value, int64_t seed) const;
  /// Training images by the scale's recipes and settings alone; none if the scale has no recipes.
  Sources images_of_scale() const;
  /// Words --option value of the command that makes a file.
  std::vector<std::string> options_of(const RunSpec& spec, int64_t seed) const;

  /// The network of a run of kind features.
  const FeatureNetKind& network_of(const RunSpec& spec) const;

  /// A key of the experiment's file, and one of its scale, as in messages.
  std::string where(const std::string& key) const;
  std::string scale_key(const std::string& key) const;

 private:
  /// Seeds without those of the command line.
  const std::vector<int64_t>& own_seeds(const RunSpec& spec) const;
  void add_images(RunLayers& layers) const;
  void refuse_other_images(const RunSpec& spec) const;

  const Experiment& experiment_;
  const PlanOptions& options_;
  const ScaleSpec& scale_;
};

/// The training images that the settings of a run name.
Sources images_of(const std::string& kind, const RunLayers& layers);

}  // namespace nsvq
