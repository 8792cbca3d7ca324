#pragma once

#include <filesystem>
#include <string>
#include <type_traits>
#include <vector>

#include "nsvq/recipe/run_kind.h"
#include "nsvq/recipe/tokenizer_config.h"

namespace nsvq {

/// Reads the settings of a run into the fields of a table, then `key=value` overrides: its
/// config.yaml or, where that is missing, what its newest checkpoint's model carries under
/// `metadata_key`. Throws UserError, also if the folder holds no run.
void read_run_settings(const OptionTable& table, const std::filesystem::path& run,
                       const std::string& metadata_key, const std::vector<std::string>& overrides);

/// The settings of a run, read as read_run_settings does.
template <typename Config = TokenizerConfig>
Config load_run_config(const std::filesystem::path& run,
                       const std::vector<std::string>& overrides = {}) {
  Config config;
  read_run_settings(option_table(config), run, run_kind(Config::kind).settings_key, overrides);
  return config;
}

/// Sets the fields of some rows that a run's settings name, whatever else is in them; a value out
/// of its range leaves a field as it is. Throws UserError for a file that cannot be read.
void read_stored_settings(const std::vector<Option>& rows, const std::filesystem::path& run);

/// What the run in a folder trains, by its settings. Throws UserError for a file that cannot be
/// read.
RunKind kind_of_run(const std::filesystem::path& run);

/// Whether a recipe that has been read is a run's config.yaml or has one among its bases: anyone
/// may have written it.
bool comes_from_a_run(const std::filesystem::path& recipe);

/// Sets for both sources whether commands (pipe:) among them may be run. Anyone may have written
/// `stored` settings: of these, only sources that the user's overrides name, or all with
/// `allow_pipe`.
void allow_pipes(DataConfig& data, bool stored, const std::vector<std::string>& overrides,
                 bool allow_pipe = false);

/// Reads a recipe as load_config does. Where nobody sets them, model.* and, with
/// quantizer.init: model, quantizer.* and data.size are those of the model that train.init_from
/// names, if it is there.
TokenizerConfig load_recipe(const std::string& path, const std::vector<std::string>& overrides);

/// The settings that a user names: a recipe, or a run's folder. Commands (pipe:) among the sources
/// of a run, also if its config.yaml is named or is a base, may be run only with `allow_pipe`;
/// those of a recipe and of overrides are the user's own.
template <typename Config = TokenizerConfig>
Config load_recipe_or_run(const std::string& path, const std::vector<std::string>& overrides,
                          bool allow_pipe = false) {
  const bool run = std::filesystem::is_directory(path);
  Config config;
  if (run) {
    config = load_run_config<Config>(path, overrides);
  } else if constexpr (std::is_same_v<Config, TokenizerConfig>) {
    config = load_recipe(path, overrides);
  } else {
    config = load_config<Config>(path, overrides);
  }
  allow_pipes(config.data, run || comes_from_a_run(path), overrides, allow_pipe);
  return config;
}

}  // namespace nsvq
