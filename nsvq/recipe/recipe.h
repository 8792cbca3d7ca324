#pragma once

#include <string>
#include <vector>

#include "nsvq/settings/config.h"
#include "nsvq/settings/option_table.h"

namespace nsvq {

// The settings of a tokenizer's run as recipes: YAML files that name some of them.

/// The table of all settings, bound to the fields of `config`.
OptionTable tokenizer_options(Config& config);

/// Reads a recipe (empty path: defaults alone), then applies `key=value` overrides; UserError as
/// OptionTable::load says. Defaults of the quantizer's kind hold for keys that neither sets.
Config load_config(const std::string& path, const std::vector<std::string>& overrides = {});

/// Reads a recipe's text, as a checkpoint carries it; errors call it `source`.
Config parse_config(const std::string& text, const std::string& source);

/// The configuration as a recipe that load_config reads back to equal values.
std::string to_yaml(const Config& config);

/// The settings that have an effect on the result and differ, each as "key (a here, b there)".
std::vector<std::string> essential_differences(const Config& here, const Config& there);

/// Every key with type, default, range and meaning, and the defaults that depend on the quantizer,
/// as text for `nsvq config --reference`.
std::string config_reference();

/// Throws UserError when settings that are valid one by one contradict each other.
void check_settings(const Config& config);

}  // namespace nsvq
