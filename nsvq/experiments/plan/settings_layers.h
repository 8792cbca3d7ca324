#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "nsvq/recipe/run_config.h"

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

/// Settings of a tokenizer or a diffusion model (`kind`, of run_spec_kinds()). Throws UserError.
ResolvedSettings resolve_settings(const std::string& kind, const SettingsLayers& layers);

/// Whether a setting is part of the essence: those of logging, threads and checkpoints are not.
bool is_essential(std::string_view key);

/// The first `digits` hexadecimal digits of a text's SHA-256.
std::string short_hash(const std::string& text, size_t digits = 10);

}  // namespace nsvq
