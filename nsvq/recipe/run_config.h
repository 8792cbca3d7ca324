#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "nsvq/data/data_config.h"
#include "nsvq/data/sources/patterns.h"
#include "nsvq/recipe/checkpoint.h"
#include "nsvq/recipe/dist.h"
#include "nsvq/recipe/optimizer.h"
#include "nsvq/recipe/train.h"
#include "nsvq/settings/option_table.h"

namespace nsvq {

/// Settings that every run has, whatever it trains. A kind of run adds its own in a struct derived
/// from this one, and binds a table to all of them: `OptionTable option_table(ITS_STRUCT&)`. The
/// templates below then serve it.
struct RunConfig {
  int64_t seed = 0;
  std::string device = "auto";
  int64_t threads = 0;
  DataConfig data;
  OptimizerConfig optimizer;
  TrainConfig train;
  DistConfig dist;
  CheckpointConfig checkpoint;
};

/// Rows of seed, device and threads, which stand in no section.
std::vector<Option> run_options(RunConfig& run);

/// Words by which other programs call settings, in lower case, each with the key that it has here.
const std::map<std::string, std::string>& words_of_other_programs();

/// Changes the paths that the fields of a table name.
void change_paths(const OptionTable& table,
                  const std::function<std::string(const std::string&)>& change);
std::string absolute_path(const std::string& path);
/// Whether two tables of equal rows name the same files to train on or from.
bool equal_training_files(const OptionTable& here, const OptionTable& there);

struct TokenizerConfig;

/// Reads a recipe (empty path: defaults alone), then applies `key=value` overrides; UserError as
/// OptionTable::load says. Dependent defaults hold for keys that neither sets.
template <typename Config = TokenizerConfig>
Config load_config(const std::string& path, const std::vector<std::string>& overrides = {}) {
  Config config;
  option_table(config).load(path, overrides);
  return config;
}

/// Reads a recipe's text, as a checkpoint carries it; errors call it `source`.
template <typename Config = TokenizerConfig>
Config parse_config(const std::string& text, const std::string& source) {
  Config config;
  option_table(config).parse(text, source);
  return config;
}

/// All settings as a recipe that load_config reads back to equal values.
template <std::derived_from<RunConfig> Config>
std::string to_yaml(Config config) {
  return option_table(config).to_yaml();
}

/// The settings that have an effect on the result and differ, each as "key (a here, b there)".
template <std::derived_from<RunConfig> Config>
std::vector<std::string> essential_differences(Config here, Config there) {
  return option_table(here).differences(option_table(there));
}

/// `config` with `~` in paths replaced by the user's home, which a shell does not do within
/// key=~/value.
template <std::derived_from<RunConfig> Config>
Config with_home(Config config) {
  change_paths(option_table(config), home_path);
  return config;
}

/// `config` with paths that do not depend on the current folder, so that a stored config.yaml
/// serves from anywhere.
template <std::derived_from<RunConfig> Config>
Config with_absolute_paths(Config config) {
  change_paths(option_table(config), absolute_path);
  return config;
}

}  // namespace nsvq
