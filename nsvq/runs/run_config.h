#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "nsvq/settings/config.h"

namespace nsvq {

/// The settings of a run, with `key=value` overrides: its config.yaml or, where that is missing,
/// what its newest checkpoint carries. Throws UserError, also if the folder holds no run.
Config load_run_config(const std::filesystem::path& run,
                       const std::vector<std::string>& overrides = {});

/// The settings that a user names: a recipe, or a run's folder. Commands (pipe:) among the sources
/// of a run, also if its config.yaml is named or is a base, may be run only with `allow_pipe`;
/// those of a recipe and of overrides are the user's own.
Config load_recipe_or_run(const std::string& path, const std::vector<std::string>& overrides,
                          bool allow_pipe = false);

/// Whether a recipe, which has been read, is a run's config.yaml or has one among its bases: it may
/// be of anyone.
bool comes_from_a_run(const std::filesystem::path& recipe);

/// Says of both sources whether commands (pipe:) among them may be run: of `stored` settings, which
/// may be of anyone, those that the user's overrides name, or all with `allow_pipe`.
void allow_pipes(DataConfig& data, bool stored, const std::vector<std::string>& overrides,
                 bool allow_pipe = false);

/// The same settings with `~` in paths replaced by the user's home, which a shell does not do
/// within key=~/value.
Config with_home(Config config);

/// The same settings with paths that do not depend on the current folder, so that a stored
/// config.yaml serves from anywhere.
Config with_absolute_paths(Config config);

}  // namespace nsvq
