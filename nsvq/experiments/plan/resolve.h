#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "nsvq/recipe/run_config.h"

namespace nsvq {

/// A recipe, or a list of key=value with the place it is from.
struct SettingsLayer {
  std::string recipe, where;
  std::vector<std::string> words;
};

/// Settings that lie over each other, in their order.
struct SettingsLayers {
  std::string name;  ///< for messages about all of them together
  std::vector<SettingsLayer> all;
  void add_recipes(const std::vector<std::string>& paths);
  void add(const std::string& where, const std::vector<std::string>& words);
};

/// What a run's settings come to.
struct ResolvedSettings {
  std::string yaml;     ///< all of them, as a recipe
  std::string essence;  ///< those that are not the defaults, of which a hash names the run
  RunConfig run;        ///< what every run has. Its sources may be commands only where the user's
                        ///< own files or words name them
};

/// Of a tokenizer or a diffusion model (`kind`, of job_kinds()). Throws UserError.
ResolvedSettings resolve_settings(const std::string& kind, const SettingsLayers& layers);

/// Whether a setting is part of the essence: not those of logging, threads and checkpoints.
bool is_essential(std::string_view key);

/// The first `digits` hexadecimal digits of a text's SHA-256.
std::string short_hash(const std::string& text, size_t digits = 10);

}  // namespace nsvq
